"""How much one request may do to the metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.core.replicated import VersionedRecord
from barnabas.wire.errors import ApiError, ErrorCode

MAX_RECORDS_PER_REQUEST: Final = 10_000
MAX_PARTITIONS_PER_REQUEST: Final = 10_000

TakeQuota = Callable[[int], None]
"""Counts partitions against the caller's mutation quota; ApiError THROTTLING_QUOTA_EXCEEDED past it (KIP-599)."""


def no_quota(partitions: int) -> None:
    """Count nothing."""


def check_batch(records: Sequence[VersionedRecord]) -> tuple[VersionedRecord, ...]:
    """Give the records; ApiError POLICY_VIOLATION when they are too many for one atomic batch."""
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"this request would write {len(records)} metadata records at once, the limit is "
            f"{MAX_RECORDS_PER_REQUEST}: split it",
        )
    return tuple(records)
