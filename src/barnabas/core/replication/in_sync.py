"""The in-sync replicas of a partition as its leader sees them, while the controller decides on a change (KIP-497)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from barnabas.wire.errors import ErrorCode


class IsrChange(Enum):
    """Why an ISR is proposed. RECOVERED: the ISR stays, but a leader elected uncleanly has recovered (KIP-704)."""

    EXPAND = "expand"
    SHRINK = "shrink"
    RECOVERED = "recovered"


class Member(NamedTuple):
    """A replica of a proposed ISR and the registration it was seen with; -1 where that is not known (KIP-903)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """What the leader asks the controller for. The epochs are those that it was made in."""

    change: IsrChange
    isr: tuple[Member, ...]
    leader_epoch: int
    partition_epoch: int
    recovering: bool = False

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Give the proposed ISR."""
        return tuple(member.broker_id for member in self.isr)


class Granted(NamedTuple):
    """What the controller answered for a partition when it took a proposal."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    recovering: bool = False


class Fate(Enum):
    """What becomes of a proposal. WAIT: it stays in flight until the metadata log says what is."""

    COMMITTED = "committed"
    STALE = "stale"
    DROPPED = "dropped"
    WAIT = "wait"
    RETRY = "retry"


_NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""Codes with which the controller says that our partition epoch is right and that nothing was changed."""
_METADATA_WILL_TELL = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Codes after which the metadata log is ahead of us: whatever stands there comes to us anyway."""


def fate_of(error: ErrorCode) -> Fate:
    """Give what becomes of a proposal that was refused so."""
    if error in _NOT_APPLIED:
        return Fate.DROPPED
    return Fate.WAIT if error in _METADATA_WILL_TELL else Fate.RETRY
