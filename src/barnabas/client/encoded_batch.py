"""Batches that their maker has encoded already: only their header is written anew, whatever records they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from crc32c import crc32c

from barnabas.client.producer_id import ProducerId
from barnabas.wire.batch_header import BATCH_HEADER_SIZE, CHECKED_FROM, CRC_AT, HEADER, TRANSACTIONAL, BatchHeader
from barnabas.wire.errors import ProtocolError

_CRC_END: Final = CRC_AT + 4


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One batch as `batch_of_body` or `encode_batch` gives it, of no producer yet."""

    data: bytes | memoryview
    header: BatchHeader

    @classmethod
    def of(cls, data: bytes | memoryview) -> Self:
        """Take the bytes of one whole batch; ProtocolError when they are something else."""
        if len(data) < BATCH_HEADER_SIZE:
            raise ProtocolError(f"{len(data)} bytes are no batch: its header alone has {BATCH_HEADER_SIZE}")
        header = BatchHeader(*HEADER.unpack_from(data))
        if header.size != len(data) or header.record_count < 1:
            raise ProtocolError(
                f"want one whole batch: its header tells of {header.size} bytes and {header.record_count} records, "
                f"there are {len(data)} bytes"
            )
        return cls(data, header)

    @property
    def count(self) -> int:
        """Give how many records it has."""
        return self.header.record_count

    def stamped(self, producer: ProducerId, sequence: int, *, transactional: bool) -> bytes:
        """Give the batch under a producer's id, epoch and sequence, its checksum made anew."""
        attributes = self.header.attributes | (TRANSACTIONAL if transactional else 0)
        header = self.header._replace(
            attributes=attributes, producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=sequence
        )
        out = bytearray(self.data)
        HEADER.pack_into(out, 0, *header)
        out[CRC_AT:_CRC_END] = crc32c(memoryview(out)[CHECKED_FROM:]).to_bytes(4, "big")
        return bytes(out)
