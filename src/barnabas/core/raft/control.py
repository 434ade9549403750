"""Control records of the metadata log, and what they set: the voters and kraft.version (KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.core.raft.history import History
from barnabas.core.raft.voters import VoterSet
from barnabas.wire.batch_reader import decode_batch
from barnabas.wire.control_records import ControlType, control_batch, decode_control
from barnabas.wire.message import Message
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord
from barnabas.wire.records.leader_change_message import LeaderChangeMessage
from barnabas.wire.records.leader_change_message import Voter as ChangeVoter
from barnabas.wire.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.wire.records.voters_record import VotersRecord

_TYPE_OF: Final[dict[type[Message], ControlType]] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}


def encode_control(messages: Sequence[Message], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Give one control batch of these messages, each at version 0."""
    typed = [(_TYPE_OF[type(m)], m) for m in messages]
    return control_batch(typed, timestamp=now_ms, base_offset=base_offset, leader_epoch=epoch)


def control_messages(batch: bytes) -> list[tuple[int, Message]]:
    """Give what the records of a control batch say, with their offsets; types newer than we are left out.

    ProtocolError for a damaged batch.
    """
    found = ((record.offset, decode_control(record)) for record in decode_batch(batch))
    return [(offset, said[1]) for offset, said in found if said is not None]


class ControlState:
    """The voters and kraft.version that the snapshot and the log set, by offset."""

    def __init__(self, static_voters: VoterSet) -> None:
        self.voters: History[VoterSet] = History(static_voters)
        self.kraft_version: History[int] = History(0)

    def replay(self, offset: int, message: Message) -> None:
        """Take in a control record. Of a snapshot: offset is that of the last record it contains."""
        if isinstance(message, KRaftVersionRecord):
            self.kraft_version.add(offset, message.kraft_version)
        elif isinstance(message, VotersRecord):
            self.voters.add(offset, VoterSet.from_record(message))

    def restore(self, last_offset: int, messages: Sequence[Message]) -> None:
        """Begin anew with what a snapshot says. last_offset: of the last record that it contains."""
        self.voters.clear()
        self.kraft_version.clear()
        for message in messages:
            self.replay(last_offset, message)

    def truncate_to(self, end_offset: int) -> None:
        """Forget what records at `end_offset` and later set."""
        self.voters.truncate_to(end_offset)
        self.kraft_version.truncate_to(end_offset)

    def trim_to(self, start_offset: int) -> None:
        """Forget what a snapshot that ends before `start_offset` makes needless."""
        self.voters.trim_to(start_offset)
        self.kraft_version.trim_to(start_offset)


def leader_change(leader_id: int, voter_ids: Sequence[int], granting_ids: Sequence[int]) -> LeaderChangeMessage:
    """Give the first record of an epoch."""
    return LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[ChangeVoter(voter_id=v) for v in voter_ids],
        granting_voters=[ChangeVoter(voter_id=v) for v in granting_ids],
    )
