"""From the bytes of a metadata log or snapshot to the ACLs in it, each with the offset that brought it.

All other records but those of SCRAM users are passed over undecoded: a log of many topics costs little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from barnabas.core.metadata.acls import binding_of
from barnabas.model.acl import AclBinding
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import Uuid
from barnabas.wire.metadata_records import decode_metadata_record
from barnabas.wire.primitives import Buffer
from barnabas.wire.record_batch import BatchHeader, decode_batch, iter_headers
from barnabas.wire.records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.end_transaction_record import EndTransactionRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord

_WANTED: Final = frozenset(
    record.API_KEY
    for record in (
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
    )
)
"""All below 128, so that the second byte of a record's value is its type."""


class Brought(NamedTuple):
    """What brought a rule: the record at this offset, or the snapshot of all that lies before it."""

    offset: int
    by_snapshot: bool = False


class AclReading:
    """Follows batches from the begin on.

    rules, brought: the ACLs and what brought each. credentials: names of SCRAM users with their mechanisms.
    begin: the first offset that was read, 0 with a snapshot: what lies before it is missing.
    left_out: ACLs by what is wrong with them that a newer cluster has and we do not know.
    """

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self.begin: int | None = None
        self.end = 0
        self.epoch = 0
        self.rules: dict[Uuid, AclBinding] = {}
        self.brought: dict[Uuid, Brought] = {}
        self.credentials: set[tuple[str, int]] = set()
        self._before_transaction: tuple[dict[Uuid, AclBinding], set[tuple[str, int]]] | None = None

    def read_snapshot(self, data: Buffer, snapshot: OffsetAndEpoch) -> None:
        """Take a whole snapshot in place of all that was read; ProtocolError when it is damaged."""
        self._begin()
        self.begin = 0
        for _, batch in _batches(data):
            for _, record in batch:
                self._take(record, Brought(snapshot.offset, by_snapshot=True))
        self.end, self.epoch = snapshot.offset, snapshot.epoch

    def read_log(self, data: Buffer, high_watermark: int | None = None) -> None:
        """Take the batches of a stretch of the log, up to `high_watermark` when there is one; what is known is skipped.

        ProtocolError when a batch is damaged; one that is cut off at the end is not there yet.
        """
        for header, batch in _batches(data):
            if high_watermark is not None and header.next_offset > high_watermark:
                return
            if header.base_offset >= self.end:
                self.begin = header.base_offset if self.begin is None else self.begin
                for offset, record in batch:
                    self._take(record, Brought(offset))
                self.end, self.epoch = header.next_offset, header.leader_epoch

    def locate(self, data: Buffer) -> None:
        """Find in a stretch of the log before the snapshot the records of the rules that the snapshot brought."""
        for _, batch in _batches(data):
            for offset, record in batch:
                if isinstance(record, AccessControlEntryRecord) and self.brought.get(record.id, _EXACT).by_snapshot:
                    self.brought[record.id] = Brought(offset)

    @property
    def is_exact(self) -> bool:
        """Whether the record of every rule was seen."""
        return not any(self.brought[acl_id].by_snapshot for acl_id in self.settled[0])

    @property
    def settled(self) -> tuple[dict[Uuid, AclBinding], set[tuple[str, int]]]:
        """The rules and credentials without what an open transaction has done."""
        return self._before_transaction or (self.rules, self.credentials)

    def _take(self, record: Any, brought: Brought) -> None:
        if isinstance(record, AccessControlEntryRecord):
            try:
                self.rules[record.id] = binding_of(record)
            except ValueError as e:
                self.left_out[str(e)] += 1
            else:
                self.brought[record.id] = brought
        elif isinstance(record, RemoveAccessControlEntryRecord):
            self.rules.pop(record.id, None)
        elif isinstance(record, UserScramCredentialRecord):
            self.credentials.add((record.name, record.mechanism))
        elif isinstance(record, RemoveUserScramCredentialRecord):
            self.credentials.discard((record.name, record.mechanism))
        elif isinstance(record, BeginTransactionRecord):
            self._before_transaction = dict(self.rules), set(self.credentials)
        else:
            if isinstance(record, AbortTransactionRecord) and self._before_transaction is not None:
                self.rules, self.credentials = self._before_transaction
            self._before_transaction = None


_EXACT: Final = Brought(-1)


def _batches(data: Buffer) -> Iterator[tuple[BatchHeader, Iterator[tuple[int, Any]]]]:
    for position, header in iter_headers(data, partial_tail=True):
        yield header, iter(()) if header.is_control else _records(data, position)


def _records(data: Buffer, position: int) -> Iterator[tuple[int, Any]]:
    for record in decode_batch(data, position):
        value = record.value
        if value is not None and len(value) > 1 and value[1] in _WANTED:
            yield record.offset, decode_metadata_record(value)[0]
