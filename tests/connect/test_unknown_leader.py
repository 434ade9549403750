"""A follower whose leader has not said where it listens: nothing that needs the leader is done, and nothing breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
import structlog

from barnabas.client.classic_group import Election
from barnabas.client.config import ClientConfig
from barnabas.connect.group_member import GroupMember
from barnabas.core.connect.subprotocol import ExtendedAssignment, Subprotocol, decode_worker_state, encode_extended
from tests.connect.rest.http import request
from tests.connect.workers import PATIENCE_SECONDS, running, source, states, until, worker_properties


class NamelessLeader:
    """Leads a group and has no REST server; gives the connector "lines" to the other member once it is there."""

    def __init__(self, bootstrap: str, group: str) -> None:
        client = ClientConfig.from_properties({"bootstrap.servers": bootstrap, "heartbeat.interval.ms": "100"})
        self._moved = asyncio.Event()
        self._member = GroupMember(
            client, group, "", [Subprotocol.SESSIONED], assigner=self, offset=lambda: 0, on_moved=self._on_moved
        )

    def _on_moved(self, why: str) -> None:
        self._moved.set()

    async def assign(self, subprotocol: Subprotocol, election: Election, last_generation: int) -> Mapping[str, bytes]:
        """Give each other member the connector."""
        shares = {}
        for member, told in election.members.items():
            state = decode_worker_state(told)
            has = () if state.assignment is None else state.assignment.connectors
            # What is in the config topic is the one connector, of which a member has read or has not.
            new = member != election.leader_id and state.config_offset > 0 and not has
            share = ExtendedAssignment(2, 0, election.leader_id, "", state.config_offset, ("lines",) if new else ())
            shares[member] = encode_extended(share)
        return shares

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[Self]:
        """Lead as long as the context lasts."""
        await self._member.ensure_joined()
        assert self._member.leads
        self._life = asyncio.create_task(self._stay())
        try:
            yield self
        finally:
            await self.leave()
            await self._member.close()

    async def leave(self) -> None:
        """Leave the group, if it has not yet."""
        if not self._life.cancel():
            return
        await asyncio.wait({self._life})
        await self._member.leave("its part is over")

    async def _stay(self) -> None:
        while True:
            await self._moved.wait()
            self._moved.clear()
            await self._member.ensure_joined()


@pytest.mark.requirement("H-28", "C-16", "C-26")
async def test_what_needs_the_leader_waits_until_it_is_known(bootstrap: str, group: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x\n")
    config = source(tmp_path / "lines", f"{group}-d")
    with structlog.testing.capture_logs() as log:
        async with (
            NamelessLeader(bootstrap, group).leading() as leader,
            running(worker_properties(bootstrap, group)) as follower,
        ):
            assert (follower.engine.member.leads, follower.herder.leader_url) == (False, None)
            async with asyncio.timeout(PATIENCE_SECONDS):
                refused = await request(follower, "PUT", "/connectors/lines/config", config)
                while "due to a rebalance" in refused.text:
                    refused = await request(follower, "PUT", "/connectors/lines/config", config)
            assert refused.status == 409
            assert "no known leader URL" in refused.json["message"]
            assert {name.lower(): text for name, text in refused.headers.items()}["retry-after"] == "1"
            await follower.engine.configs.put_connector_config("lines", config)
            await until(lambda: [line for line in log if "nobody has said" in str(line.get("exc_info"))])
            await until(lambda: states(follower, "lines") == ["RUNNING"])
            assert (await request(follower, "GET", "/health")).status == 200
            await leader.leave()
            await until(lambda: states(follower, "lines") == ["RUNNING", "RUNNING"])
            assert follower.herder.leader_url == follower.url
