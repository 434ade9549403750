"""Producer ids: brokers take them from the controller in blocks, none is given twice (KIP-730)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import Decision, ReplayError, VersionedRecord, replays
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
"""How many ids a broker gets at once."""
_LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """The first id that nobody has yet, and who took the last block; broker_id -1: no block was ever given."""

    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1


@replays(ProducerIdsRecord)
def take_block(image: ProducerIdsImage, r: ProducerIdsRecord) -> ProducerIdsImage:
    """Note that the ids below `next_producer_id` are given away."""
    if image.broker_id != -1 and r.next_producer_id <= image.next_producer_id:
        raise ReplayError(
            f"the metadata log gives producer ids up to {r.next_producer_id} after {image.next_producer_id}"
        )
    return ProducerIdsImage(r.next_producer_id, r.broker_id, r.broker_epoch)


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (take_block,)


def snapshot_records(image: ProducerIdsImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the record that makes the image, none when no block was given."""
    if image.next_producer_id > 0:
        yield _record(image)


def _record(image: ProducerIdsImage) -> VersionedRecord:
    record = ProducerIdsRecord(
        broker_id=image.broker_id, broker_epoch=image.broker_epoch, next_producer_id=image.next_producer_id
    )
    return VersionedRecord(record, 0)


class ProducerIdsBlock(NamedTuple):
    """The ids from `start`, `size` of them."""

    start: int
    size: int


def allocate(image: ProducerIdsImage, broker_id: int, broker_epoch: int) -> Decision[ProducerIdsBlock]:
    """Give a broker the next block; its epoch was checked. UNKNOWN_SERVER_ERROR when the ids run out."""
    start = image.next_producer_id
    if start > _LAST - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids of this cluster are used up")
    after = ProducerIdsImage(start + BLOCK_SIZE, broker_id, broker_epoch)
    return Decision((_record(after),), ProducerIdsBlock(start, BLOCK_SIZE), atomic=False)
