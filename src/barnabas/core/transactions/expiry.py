"""What ends by itself: transactions that are open for too long, and transactional ids that nobody uses any more."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.metadata import NO_TIMEOUT_MS, TransactionMetadata
from barnabas.core.transactions.states import ONGOING, SETTLED


class Timeouts:
    """When open transactions time out, on the wall's clock: a pass looks at those whose time is over, and no others.

    This is beside the image, which alone is right: what the log did not take leaves its mark here. So a transaction
    is left out only once it is complete, for what led there is committed by then, and whoever is late is asked about
    again until then.
    """

    def __init__(self) -> None:
        self._deadlines: Deadlines[str] = Deadlines()

    def __len__(self) -> int:
        """Give how many are kept in mind."""
        return len(self._deadlines)

    def note(self, metadata: TransactionMetadata) -> None:
        """Take in how a transactional id stands now."""
        key = (metadata.transactional_id,)
        if metadata.state is ONGOING and metadata.timeout_ms != NO_TIMEOUT_MS:
            self._deadlines.schedule(key, metadata.started_ms + metadata.timeout_ms, metadata.transactional_id)
        elif not metadata.is_ending:
            self._deadlines.cancel(key)

    def forget(self, transactional_id: str) -> None:
        """Take in that a transactional id is gone."""
        self._deadlines.cancel((transactional_id,))

    def late(self, image: TransactionImage, now_ms: int, limit: int) -> list[str]:
        """Give transactional ids, at most `limit`, whose open transaction timed out; those overdue longest first."""
        late: list[str] = []
        again: dict[str, int] = {}
        while len(late) < limit and (name := self._deadlines.pop_due(now_ms - 1)) is not None:
            metadata = image.transactions.get(name)
            if metadata is None or metadata.state in SETTLED:
                continue
            if metadata.state is ONGOING:
                late.append(name)
                again[name] = now_ms
            else:  # it ends, as far as the log takes that
                again[name] = now_ms + metadata.timeout_ms
        for name, at_ms in again.items():
            self._deadlines.schedule((name,), at_ms, name)
        return late


def expired(
    config: TransactionConfig, image: TransactionImage, transactional_ids: Iterable[str], now_ms: int
) -> list[str]:
    """Give those of the transactional ids that have done nothing for so long that they can be forgotten."""
    last_ms = now_ms - config.id_expiration_ms
    gone = []
    for name in transactional_ids:
        metadata = image.transactions.get(name)
        if metadata is not None and metadata.state in SETTLED and metadata.updated_ms <= last_ms:
            gone.append(name)
    return gone
