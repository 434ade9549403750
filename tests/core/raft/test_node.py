from __future__ import annotations

from random import Random

import pytest

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.leader import Leader, committed_end
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import BatchTooLargeError, Entry, LogState, NotLeaderError, Ready
from barnabas.core.raft.resigned import Resigned
from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet, parse_static_voters
from barnabas.model.uuid import Uuid
from barnabas.wire.control_records import ControlType, decode_control
from barnabas.wire.record_batch import decode_batch, read_header
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord
from barnabas.wire.records.leader_change_message import LeaderChangeMessage
from barnabas.wire.records.voters_record import VotersRecord

DIRECTORY = Uuid.parse("JEXY6aqzQY-32P5TStzaFg")
OTHER = Uuid.parse("MvDxzVmcRsaTz33bUuRU6A")
KEY = ReplicaKey(1, DIRECTORY)
ME = Voter(KEY, (("CONTROLLER", Endpoint("localhost", 9093)),))


def formatted(*voters: Voter) -> ControlState:
    control = ControlState(VoterSet())
    control.replay(-1, KRaftVersionRecord(version=0, kraft_version=1))
    control.replay(-1, VoterSet.of(voters).to_record())
    return control


def make(
    saved: ElectionState | None = None, end: tuple[int, int] = (0, 0), control: ControlState | None = None
) -> RaftNode:
    offset, epoch = end
    log = LogState(end_offset=offset, epochs=((epoch, 0),) if epoch else ())
    return RaftNode(
        Identity(KEY, ME), saved, log, control or formatted(ME), QuorumSettings(), Random(1), 0, max_batch_bytes=4096
    )


def run(node: RaftNode) -> list[Ready]:
    steps = []
    while ready := node.ready():
        steps.append(ready)
        node.advance(ready, 1000)
    return steps


def control_types(entry: Entry) -> list[object]:
    return [type(found[1]) for r in decode_batch(entry.data) if (found := decode_control(r))]


def test_the_only_voter_elects_itself_with_its_vote_on_disk_before_anything_else() -> None:
    node = make()
    node.tick(1000)
    vote, won, committed = run(node)
    assert vote.election == ElectionState(1, None, KEY)
    assert not vote.entries
    assert won.election == ElectionState(1, 1, None)
    assert [e.count for e in won.entries] == [3]
    assert won.high_watermark is None
    assert committed.high_watermark == 3
    assert committed.leadership is not None
    assert (committed.leadership.epoch, committed.leadership.start_offset) == (1, 0)
    assert node.leader_id == 1


def test_the_first_batch_of_a_dynamic_quorum_names_leader_version_and_voters() -> None:
    node = make()
    node.tick(1000)
    entry = run(node)[1].entries[0]
    header = read_header(entry.data, 0)
    assert header.is_control
    assert (header.base_offset, header.leader_epoch, header.record_count) == (0, 1, 3)
    assert control_types(entry) == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert [r.key for r in decode_batch(entry.data)] == [
        b"\0\0\0" + bytes([t]) for t in (ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS)
    ]


def test_later_epochs_write_only_the_leader_change() -> None:
    control = formatted(ME)
    control.replay(2, VoterSet.of([ME]).to_record())
    node = make(ElectionState(1, 1), (10, 1), control)
    assert isinstance(node.role, Resigned)
    assert node.leader_id is None
    node.tick(0)
    entry = run(node)[1].entries[0]
    assert control_types(entry) == [LeaderChangeMessage]
    assert (entry.base_offset, entry.epoch) == (10, 2)


def test_a_leader_that_moved_writes_its_new_address() -> None:
    moved = Voter(KEY, (("CONTROLLER", Endpoint("localhost", 1)),))
    control = formatted(moved)
    control.replay(2, VoterSet.of([moved]).to_record())
    node = make(ElectionState(1, 1), (10, 1), control)
    node.tick(0)
    entry = run(node)[1].entries[0]
    assert control_types(entry) == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert node.control.voters.last.value.get(1) == ME
    assert node.control.voters.last.offset == 12


def test_a_static_quorum_writes_the_leader_change_alone() -> None:
    node = make(control=ControlState(parse_static_voters(["1@localhost:9093"], "CONTROLLER")))
    node.tick(0)
    vote, won, _ = run(node)
    assert vote.kraft_version == 0
    assert vote.voter_ids == (1,)
    assert control_types(won.entries[0]) == [LeaderChangeMessage]


def test_the_epoch_of_the_log_counts_when_the_file_is_older() -> None:
    node = make(ElectionState(2, 1), (10, 7))
    assert node.role == Unattached(7)
    node.tick(0)
    assert run(node)[0].election == ElectionState(8, None, KEY)


def test_it_does_not_stand_where_it_is_no_voter_or_not_the_only_one() -> None:
    stranger = Voter(ReplicaKey(1, OTHER), ME.endpoints)
    second = Voter(ReplicaKey(2, OTHER), ME.endpoints)
    for control in (formatted(stranger), formatted(ME, second), ControlState(VoterSet())):
        node = make(control=control)
        node.tick(0)
        assert isinstance(node.role, Unattached)
        with pytest.raises(NotLeaderError):
            node.propose([b"x"], 0)


def test_many_proposals_are_saved_in_one_step_and_committed_after_it() -> None:
    node = make()
    node.tick(0)
    run(node)
    first = node.propose([b"a", b"b"], 5)
    second = node.propose([b"c"], 6)
    assert (first.base_offset, first.end_offset, second.base_offset, second.end_offset) == (3, 5, 5, 6)
    ready = node.ready()
    assert ready is not None
    assert [e.base_offset for e in ready.entries] == [3, 5]
    third = node.propose([b"d"], 7)  # while the disk works
    assert node.high_watermark == 3
    node.advance(ready, 8)
    assert node.high_watermark == second.end_offset
    steps = run(node)
    assert steps[0].entries[0].base_offset == third.base_offset
    assert node.high_watermark == third.end_offset
    records = list(decode_batch(ready.entries[0].data))
    assert [(r.offset, r.value, r.timestamp) for r in records] == [(3, b"a", 5), (4, b"b", 5)]


def test_what_does_not_fit_a_batch_is_refused_and_leaves_no_trace() -> None:
    node = make()
    node.tick(0)
    run(node)
    with pytest.raises(BatchTooLargeError):
        node.propose([bytes(5000)], 0)
    assert node.log_end_offset == 3
    assert node.ready() is None


def test_a_resigned_leader_takes_no_proposals() -> None:
    node = make()
    node.tick(0)
    run(node)
    node.propose([b"lost"], 0)
    node.resign()
    with pytest.raises(NotLeaderError):
        node.propose([b"x"], 0)


def test_readies_come_one_at_a_time() -> None:
    node = make()
    node.tick(0)
    ready = node.ready()
    assert ready is not None
    with pytest.raises(RuntimeError):
        node.ready()
    with pytest.raises(RuntimeError):
        node.advance(Ready(), 0)


def test_only_records_of_its_own_epoch_commit() -> None:
    leader = Leader(epoch=3, me=ME, epoch_start=10, granted=(1,))
    voters = VoterSet.of(Voter(ReplicaKey(i), ()) for i in (1, 2, 3))
    second = ReplicaKey(2, OTHER)
    assert not leader.local_durable_to(12, voters)
    assert not leader.fetched_by(second, 10, 0)  # a majority, but only of what earlier epochs wrote
    assert leader.fetched_by(second, 11, 0)
    assert leader.high_watermark == 11
    assert not leader.fetched_by(second, 9, 0)
    assert leader.high_watermark == 11


@pytest.mark.parametrize(
    ("ends", "committed"), [([], 0), ([5], 5), ([5, 3], 3), ([5, 3, 1], 3), ([9, 9, 1, 1], 1), ([1, 2, 3, 4, 5], 3)]
)
def test_a_majority_commits(ends: list[int], committed: int) -> None:
    assert committed_end(ends) == committed
