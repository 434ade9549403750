"""The leader's round of assignment: `core.connect.assignment` with what it has to be told of the world.

Tasks go to workers that have the class of their connector, where any has it: each member is asked once, over REST,
what it can run. A member that does not say is taken to be able to do anything, as a JVM leader takes them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from barnabas.client.classic_group import Election
from barnabas.connect.herder.answers import texts
from barnabas.connect.herder_port import Plugins
from barnabas.connect.leader_client import LeaderClient, names_class
from barnabas.connect.stores.configs import ConfigStore
from barnabas.core.connect.assignment.incremental import NO_MEMORY, Round
from barnabas.core.connect.assignment.leading import Led, lead
from barnabas.core.connect.assignment.work import Unit
from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.subprotocol import Subprotocol, decode_worker_state
from barnabas.model.ports import Clock
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.connect.assignor")


class Assigning:
    """Shares work out while this worker leads (`group_member.Assigner`).

    sync_s: how long to read the config topic on when a member has read further than this worker.
    """

    def __init__(
        self,
        configs: ConfigStore,
        client: LeaderClient,
        plugins: Plugins,
        clock: Clock,
        *,
        max_delay_ms: int,
        sync_s: float,
    ) -> None:
        self._configs = configs
        self._client = client
        self._plugins = plugins
        self._clock = clock
        self._max_delay_ms = max_delay_ms
        self._sync_s = sync_s
        self._memory = NO_MEMORY
        self._led: Led | None = None
        self._classes: dict[str, frozenset[str]] = {}

    async def assign(self, subprotocol: Subprotocol, election: Election, last_generation: int) -> Mapping[str, bytes]:
        """Give every member its share, encoded. last_generation: the last one that this worker saw complete."""
        members = {member: decode_worker_state(data) for member, data in election.members.items()}
        if max(state.config_offset for state in members.values()) > self._configs.state.offset:
            await self._read_on()
        config = self._configs.state
        urls = {member: state.url for member, state in members.items() if member != election.leader_id}
        await self._ask_for_classes(urls, config)

        def capable(member: str, connector: str) -> bool:
            return self._capable(config, connector, None if member == election.leader_id else member)

        this = Round(election.generation, last_generation, self._clock.monotonic_ms(), self._max_delay_ms, capable)
        led = lead(subprotocol, election.leader_id, election.members, config, self._memory, this)
        self._memory, self._led = led.memory, led
        if led.behind:
            log.warning("this worker leads, but has read less of the config topic than a member; all rejoin")
        return led.messages

    def owner_url(self, unit: Unit) -> str | None:
        """Give where the worker of a connector or task listens, by the latest round that this worker led."""
        return None if self._led is None else self._led.owner_url(unit)

    async def _read_on(self) -> None:
        try:
            await self._configs.refresh(self._sync_s)
        except (TimeoutError, ApiError, DisconnectedError, RequestTimeoutError) as e:
            log.warning("the config topic could not be read to its end", why=str(e))

    async def _ask_for_classes(self, urls: Mapping[str, str], config: ClusterConfigState) -> None:
        self._classes = {member: known for member, known in self._classes.items() if member in urls}
        strangers = [member for member in urls if member not in self._classes]
        if not config.connectors or not strangers:
            return
        found = await asyncio.gather(*(self._client.connector_classes(urls[member]) for member in strangers))
        self._classes |= {m: classes for m, classes in zip(strangers, found, strict=True) if classes is not None}

    def _capable(self, config: ClusterConfigState, connector: str, member: str | None) -> bool:
        wanted = texts(config.connector_configs[connector])
        if member is None:
            return self._plugins.knows(wanted)
        classes = self._classes.get(member)
        # By its whole name, which others list; a class that is not here may still be there, by a name that they tell.
        named = self._plugins.class_name(wanted) or wanted.get("connector.class", "")
        return classes is None or any(names_class(named, known) for known in classes)
