"""What ends by itself: transactions that are open for too long, and transactional ids that nobody uses any more."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.states import SETTLED


def timed_out(image: TransactionImage, now_ms: int, limit: int) -> list[str]:
    """Give the transactional ids, at most `limit`, whose open transaction timed out; those overdue longest first."""
    late = ((end_ms, name) for name, end_ms in image.ends_ms.items() if end_ms < now_ms)
    return [name for _, name in nsmallest(limit, late)]


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
