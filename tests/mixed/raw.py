"""Requests of any version to one broker, and what came of them, to be compared between the kinds."""

from __future__ import annotations

from typing import Any, Final

from barnabas.client.admin import Admin
from barnabas.client.cluster import CoordinatorKind
from barnabas.wire.errors import ErrorCode
from tests.conformance.side_by_side.comparison import Known, differences, told
from tests.conformance.side_by_side.requests import request
from tests.conformance.side_by_side.side import Side
from tests.peers.eventually import eventually

from .clusters import WAIT_S

_NOT_YET: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Talk:
    """What is said with one arrangement of brokers. names: texts of its own, and what they are called in both."""

    def __init__(self, asking: Admin, name: str, names: dict[str, str]) -> None:
        self.side: Final = Side(name, 0, {}, names)
        self._asking = asking

    async def ask(self, node: int, asked: Any, version: int) -> Any:
        """Send a request and give its answer; nothing is written down."""
        return await self._asking.cluster.call_node(node, asked, version=version)

    async def call(self, node: int, asked: Any, version: int, note: str = "") -> Any:
        """Send a request, write down what came of it, and give the answer."""
        answer = await self.ask(node, asked, version)
        self.side.note(asked, version, "", answer, note)
        return answer

    async def settled(self, node: int, transactional_id: str) -> None:
        """Write down what its coordinator says of a transactional id once no transaction of it is ending."""
        asked = request("DescribeTransactions", transactional_ids=[transactional_id])

        async def is_ending() -> bool:
            found = (await self.ask(node, asked, 0)).transaction_states[0]
            return found.error_code in _NOT_YET or found.transaction_state.startswith("Prepare")

        await eventually(is_ending, False, WAIT_S)
        await self.call(node, asked, 0, "settled")

    async def ready(self, node: int, transactional_id: str) -> None:
        """Wait until this broker coordinates a transactional id."""
        self._asking.cluster.forget_coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        asked = request("DescribeTransactions", transactional_ids=[transactional_id])

        async def is_not_yet() -> bool:
            return (await self.ask(node, asked, 0)).transaction_states[0].error_code in _NOT_YET

        await eventually(is_not_yet, False, WAIT_S)


def same(real: Talk, other: Talk, *known: Known) -> None:
    """Check that the same came of what was said with Apache Kafka's and with the others, but for what is known."""
    assert real.side.outcomes
    found = [d for d in differences(real.side, other.side) if not any(k.covers(d) for k in known)]
    assert not found, f"{other.side.name}: {len(found)} differences from {real.side.name}\n{told(found)}"
