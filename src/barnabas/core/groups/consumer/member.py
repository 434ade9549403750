"""A member of a group of the consumer protocol: what it says of itself, and what it has (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.model.uuid import Uuid

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""What a static member says, and has, that will be back under its instance id."""

Owned = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic id; each with the member epoch in which it was assigned (KIP-1251). No inner one is empty."""
Target = Mapping[Uuid, frozenset[int]]
"""Partitions that a member shall have, by topic id."""


class MemberState(IntEnum):
    """How far a member is on its way to its target. The value is what records say."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions up and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up."""
    UNKNOWN = 127
    """A newer coordinator wrote a state that this one does not know."""


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """What a member said in JoinGroup that speaks the classic protocol inside of a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


_NOTHING: Final[Mapping[int, int]] = {}
_NO_TOPICS: Final[Owned] = {}


class ConsumerMember(NamedTuple):
    """A member. epoch: of the target that it has reached, 0 when it just came. regex: "" or None when it has none.

    A tuple, as a heartbeat makes several: a frozen dataclass of so many fields takes four times as long.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    names: frozenset[str] = frozenset()
    regex: str | None = ""
    server_assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Owned = _NO_TOPICS
    pending_revocation: Owned = _NO_TOPICS
    classic: ClassicProtocols | None = None

    @property
    def uses_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all that the target of this epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def moved(self, epoch: int, state: MemberState, assigned: Owned, pending: Owned) -> ConsumerMember:
        """Give the member one step further; it remembers the epoch that it comes from."""
        return self._replace(
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending,
        )

    def left_for_a_while(self) -> ConsumerMember:
        """Give the static member that has left and keeps its partitions until its session ends."""
        return self._replace(
            epoch=STATIC_LEAVE_EPOCH,
            assigned={topic: dict.fromkeys(partitions, 0) for topic, partitions in self.assigned.items()},
            pending_revocation={},
        )

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Give since which epoch the member has the partition, None when it does not have it."""
        epoch = self.assigned.get(topic_id, _NOTHING).get(partition)
        return self.pending_revocation.get(topic_id, _NOTHING).get(partition) if epoch is None else epoch
