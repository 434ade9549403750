"""What each refusal means for a transaction: try again, look for the coordinator, abort, or give the producer up.

The tables follow Kafka's client, so that a program sees the same whichever client it uses (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from barnabas.wire.errors import ApiError, ErrorCode

E = ErrorCode


class TransactionError(ApiError):
    """A transaction that goes no further. `code` says why."""


class AbortableTransactionError(TransactionError):
    """This transaction cannot be committed: abort it, then begin the next one with the same producer."""


class FatalTransactionError(TransactionError):
    """This producer can do nothing more: close it."""


class ProducerFencedError(FatalTransactionError):
    """Another producer with the same transactional id has taken over: this one is the zombie."""


class IllegalTransactionStateError(RuntimeError):
    """The program called something at a moment when it makes no sense, such as `send` before `begin`."""


class TransactionTimeoutError(Exception):
    """An operation was not finished within max.block.ms; it goes on, and calling it again waits for the same one."""


class Verdict(IntEnum):
    """What to do after an answer; of the verdicts on several partitions the greatest counts."""

    DONE = 0
    AGAIN = 1
    """Ask once more: nothing is wrong that time does not mend."""
    SEEK = 2
    """Find the coordinator anew, then ask once more."""
    ABORT = 3
    """This transaction is lost."""
    BUMP = 4
    """This transaction is lost, and the next one needs a new epoch, where the coordinator can give one."""
    FATAL = 5


_FENCED: Final = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH})
_MOVED: Final = frozenset({E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class Judgement:
    """How to take the refusals of one kind of request. otherwise: of codes that are neither listed nor retriable."""

    listed: Mapping[ErrorCode, Verdict] = field(default_factory=dict)
    otherwise: Verdict = Verdict.FATAL

    def of(self, code: ErrorCode) -> Verdict:
        """Give the verdict on one code."""
        if code == E.NONE:
            return Verdict.DONE
        if code in self.listed:
            return self.listed[code]
        if code in _FENCED:
            return Verdict.FATAL
        if code in _MOVED:
            return Verdict.SEEK
        return Verdict.AGAIN if code.retriable else self.otherwise

    def worst(self, codes: Iterable[ErrorCode]) -> tuple[Verdict, ErrorCode]:
        """Give the verdict on all of these, and the first code that it comes from."""
        verdict, why = Verdict.DONE, E.NONE
        for code in codes:
            if (one := self.of(code)) > verdict:
                verdict, why = one, code
        return verdict, why


FIND_COORDINATOR: Final = Judgement(
    {E.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT, E.TRANSACTION_ABORTABLE: Verdict.ABORT}
)
INIT_PRODUCER_ID: Final = Judgement(
    {
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.ABORT,
        E.CLUSTER_AUTHORIZATION_FAILED: Verdict.ABORT,
        E.TRANSACTION_ABORTABLE: Verdict.ABORT,
    }
)
ADD_PARTITIONS: Final = Judgement(
    {
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
        E.INVALID_TXN_STATE: Verdict.FATAL,
        E.INVALID_PRODUCER_ID_MAPPING: Verdict.FATAL,
        E.UNKNOWN_PRODUCER_ID: Verdict.BUMP,
    },
    otherwise=Verdict.ABORT,
)
ADD_OFFSETS: Final = Judgement(
    {
        E.UNKNOWN_PRODUCER_ID: Verdict.BUMP,
        E.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT,
        E.TRANSACTION_ABORTABLE: Verdict.ABORT,
    }
)
COMMIT_OFFSETS: Final = Judgement(
    {
        E.REQUEST_TIMED_OUT: Verdict.SEEK,
        E.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT,
        E.FENCED_INSTANCE_ID: Verdict.ABORT,
        E.UNKNOWN_MEMBER_ID: Verdict.ABORT,
        E.ILLEGAL_GENERATION: Verdict.ABORT,
        E.TRANSACTION_ABORTABLE: Verdict.ABORT,
    }
)
COMMIT: Final = Judgement({E.UNKNOWN_PRODUCER_ID: Verdict.BUMP, E.TRANSACTION_ABORTABLE: Verdict.ABORT})
ABORT: Final = Judgement({E.UNKNOWN_PRODUCER_ID: Verdict.BUMP})
"""An abort that can only be aborted would never end: here TRANSACTION_ABORTABLE is fatal."""

_FATAL_TO_BATCHES: Final = frozenset(
    {
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        E.PRODUCER_FENCED,
        E.UNSUPPORTED_VERSION,
        E.INVALID_PRODUCER_ID_MAPPING,
    }
)


def of_failed_batch(error: Exception) -> Verdict:
    """Give the verdict on a batch that is given up, whatever it was tried before."""
    return Verdict.FATAL if isinstance(error, ApiError) and error.code in _FATAL_TO_BATCHES else Verdict.BUMP


def explained(verdict: Verdict, code: ErrorCode, transactional_id: str, about: str) -> TransactionError:
    """Give the error to raise for a verdict. about: what was being done, such as `committing`."""
    where = f"transactional id {transactional_id!r}, {about}"
    if verdict is not Verdict.FATAL:
        return AbortableTransactionError(code, f"{where}: {code.message}; abort the transaction, then begin anew")
    if code in _FENCED:
        return ProducerFencedError(
            E.PRODUCER_FENCED,
            f"{where}: another producer with this id has taken over, or the transaction ran longer than "
            "transaction.timeout.ms; close this producer",
        )
    return FatalTransactionError(code, f"{where}: {code.message}; close this producer")
