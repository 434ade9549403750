"""Where a source's transactions end: after every batch, after some time, or where the connector says (KIP-618)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto


class TransactionBoundary(StrEnum):
    """A connector's `transaction.boundary`."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class Wish(Enum):
    """What a connector wants to become of the transaction, once the batch that it gave is written."""

    NOTHING = auto()
    COMMIT = auto()
    ABORT = auto()


class Verdict(Enum):
    """What becomes of the transaction now.

    ABORT drops what was written, and the offsets are kept all the same, in a transaction of their own: the connector
    does not want to see the same records again.
    """

    GO_ON = auto()
    COMMIT = auto()
    ABORT = auto()


_OF_WISH = {Wish.NOTHING: Verdict.GO_ON, Wish.COMMIT: Verdict.COMMIT, Wish.ABORT: Verdict.ABORT}


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Where one task's transactions end. interval_ms: of INTERVAL, how long one lasts; since_ms: when this began."""

    kind: TransactionBoundary
    interval_ms: int = 0
    since_ms: int = 0

    def begun(self, now_ms: int) -> Boundaries:
        """Give what holds once the task begins, or goes on after a pause."""
        return replace(self, since_ms=now_ms)

    def after_batch(self, wish: Wish, now_ms: int) -> tuple[Boundaries, Verdict]:
        """Give what becomes of the transaction after a batch, or after there was none, and what holds from then on."""
        match self.kind:
            case TransactionBoundary.POLL:
                return self, Verdict.COMMIT
            case TransactionBoundary.CONNECTOR:
                return self, _OF_WISH[wish]
        if now_ms < self.since_ms + self.interval_ms:
            return self, Verdict.GO_ON
        return self.begun(now_ms), Verdict.COMMIT

    def at_end(self, wish: Wish) -> Verdict:
        """Give what becomes of a transaction that is open when the task pauses or ends.

        GO_ON then means that nobody finishes it: a part of what a connector wants to be one must not be seen.
        """
        return _OF_WISH[wish] if self.kind is TransactionBoundary.CONNECTOR else Verdict.COMMIT
