"""From the bytes of a metadata log or snapshot to an image, passing over what is not known here.

A node must stop at a record that it cannot apply. The shell shows what there is instead, and counts what it left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from barnabas.core.metadata.features import FeaturesImage
from barnabas.core.metadata.image import MetadataImage, known_records, replay_one
from barnabas.core.raft.voters import VoterSet
from barnabas.model.features import KRAFT_VERSION, METADATA_VERSION
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.errors import ProtocolError
from barnabas.wire.metadata_records import decode_metadata_record
from barnabas.wire.primitives import Buffer
from barnabas.wire.record_batch import BatchHeader, Record, decode_batch, decode_control, iter_headers
from barnabas.wire.records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.end_transaction_record import EndTransactionRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord
from barnabas.wire.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.wire.records.voters_record import VotersRecord

_KNOWN = known_records()


class Reading:
    """Follows batches from the begin on. left_out: records by what they are that were passed over."""

    def __init__(self) -> None:
        self._begin()
        self.kraft_version = 0
        self.voters: VoterSet | None = None
        self.left_out: Counter[str] = Counter()

    def _begin(self) -> None:
        self._image = MetadataImage.EMPTY
        self._before_transaction: MetadataImage | None = None
        self.end = 0
        self.epoch = 0
        self.time_ms = 0

    @property
    def image(self) -> MetadataImage:
        """Give the metadata after the last record; of an open transaction nothing shows."""
        return (self._before_transaction or self._image).at(self.end - 1, self.epoch)

    def read_snapshot(self, data: Buffer, snapshot: OffsetAndEpoch) -> None:
        """Take a whole snapshot in place of all that was read; ProtocolError when it is damaged."""
        self._begin()
        for header, records in _batches(data):
            self._read(header, records)
        self.end, self.epoch = snapshot.offset, snapshot.epoch

    def read_log(self, data: Buffer, high_watermark: int | None = None) -> None:
        """Take the batches of a stretch of the log, up to `high_watermark` when there is one; what is known is skipped.

        ProtocolError when a batch is damaged; one that is cut off at the end is not there yet.
        """
        for header, records in _batches(data):
            if high_watermark is not None and header.next_offset > high_watermark:
                return
            if header.base_offset >= self.end:
                self._read(header, records)
                self.end, self.epoch = header.next_offset, header.leader_epoch
                self.time_ms = max(self.time_ms, header.max_timestamp)

    def _read(self, header: BatchHeader, records: Iterator[Record]) -> None:
        for record in records:
            if header.is_control:
                control = decode_control(record)
                if control is not None:
                    self._control(control[1])
                continue
            try:
                message, _ = decode_metadata_record(record.value or b"")
            except ProtocolError as e:
                self.left_out[str(e)] += 1
                continue
            self._metadata(message)

    def _control(self, message: Any) -> None:
        if isinstance(message, SnapshotHeaderRecord):
            self.time_ms = message.last_contained_log_timestamp
        elif isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self.voters = VoterSet.from_record(message)

    def _metadata(self, r: Any) -> None:
        if isinstance(r, BeginTransactionRecord):
            self._before_transaction = self._image
        elif isinstance(r, EndTransactionRecord):
            self._before_transaction = None
        elif isinstance(r, AbortTransactionRecord):
            self._image = self._before_transaction or self._image
            self._before_transaction = None
        elif isinstance(r, FeatureLevelRecord):
            self._image = replace(self._image, features=_with_level(self._image.features, r))
        elif type(r) in _KNOWN:
            self._image = replay_one(self._image, r)
        else:
            self.left_out[f"{type(r).__name__}s"] += 1


def _with_level(features: FeaturesImage, r: FeatureLevelRecord) -> FeaturesImage:
    """Give the features with one more level, whether we could run it or not."""
    if r.name == METADATA_VERSION:
        return replace(features, metadata_version=int(r.feature_level))
    if r.name == KRAFT_VERSION:
        return features
    others = features.others.set(r.name, int(r.feature_level))
    return replace(features, others=others if r.feature_level else others.delete(r.name))


def _batches(data: Buffer) -> Iterator[tuple[BatchHeader, Iterator[Record]]]:
    for position, header in iter_headers(data, partial_tail=True):
        yield header, decode_batch(data, position)
