"""What requests get back that are not welcome, and what answers say besides."""

from __future__ import annotations

from random import Random
from typing import ClassVar, TypeVar

import pytest

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.follower import Follower
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import LogRead, LogState, Ready, Reply, SnapshotInfo, SnapshotRead
from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet, static_voters
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)

TOPIC = "__cluster_metadata"
R = TypeVar("R", bound=Message)


def directory(n: int) -> Uuid:
    return Uuid(bytes(15) + bytes([128 + n]))


def voter(n: int) -> Voter:
    endpoints = (("CONTROLLER", Endpoint(f"host{n}", 9000 + n)), ("INNER", Endpoint(f"inner{n}", 7000 + n)))
    return Voter(ReplicaKey(n, directory(n)), endpoints)


class Quorum:
    """Node 1, alone under test. bootstrap: the servers that it may ask who leads."""

    bootstrap: ClassVar[tuple[Endpoint, ...]] = (Endpoint("host2", 9002),)

    def __init__(self, voters: int = 3, saved: ElectionState | None = None, log: LogState | None = None) -> None:
        control = ControlState(VoterSet())
        if voters:
            control.replay(-1, VoterSet.of(voter(n) for n in range(1, voters + 1)).to_record())
            control.kraft_version.add(-1, 1)
        self.node = self.made(control, saved, log)
        self.now = 10_000
        self.replies: dict[int, Reply] = {}
        self.requests: list[Message] = []

    def made(self, control: ControlState, saved: ElectionState | None, log: LogState | None) -> RaftNode:
        me = voter(1)
        settings = QuorumSettings(bootstrap=self.bootstrap)
        return RaftNode(
            Identity(me.key, me), saved, log or LogState(), control, settings, Random(1), 10_000, cluster_id="c"
        )

    def carry(self) -> list[Ready]:
        found = []
        while ready := self.node.ready():
            found.append(ready)
            self.replies |= {reply.token: reply for reply in ready.replies}
            self.requests += [out.message for out in ready.requests]
            self.node.advance(ready, self.now)
        return found

    def ask(self, request: Message, kind: type[R], version: int | None = None, listener: str = "CONTROLLER") -> R:
        self.node.request(7, request, request.MAX_VERSION if version is None else version, listener, self.now)
        self.carry()
        answer = self.replies.pop(7).response
        assert isinstance(answer, kind)
        return answer

    def wait(self, ms: int) -> None:
        """Let time pass as it does for a process that runs: it ticks whenever the node asked for it."""
        end = self.now + ms
        while (due := self.node.next_deadline_ms()) is not None and due <= end:
            self.now = max(self.now, due)
            self.node.tick(self.now)
            self.carry()
        self.now = end

    def led(self) -> Quorum:
        self.node.tick(self.now)
        self.carry()
        assert isinstance(self.node.role, Leader)
        return self


def vote_for(
    n: int, epoch: int, *, end: tuple[int, int] = (0, 0), pre: bool = False, **more: object
) -> vote.VoteRequest:
    partition = vote.RequestPartitionData(
        replica_epoch=epoch,
        replica_id=n,
        replica_directory_id=directory(n),
        last_offset=end[0],
        last_offset_epoch=end[1],
        pre_vote=pre,
    )
    request = vote.VoteRequest(cluster_id="c", topics=[vote.RequestTopicData(topic_name=TOPIC, partitions=[partition])])
    for name, value in more.items():
        setattr(request, name, value)
    return request


def voted(response: vote.VoteResponse) -> tuple[int, bool]:
    found = response.topics[0].partitions[0]
    return found.error_code, found.vote_granted


def test_a_vote_is_given_once_an_epoch_and_survives_a_restart() -> None:
    quorum = Quorum()
    assert voted(quorum.ask(vote_for(2, 5), vote.VoteResponse)) == (ErrorCode.NONE, True)
    assert voted(quorum.ask(vote_for(2, 5), vote.VoteResponse)) == (ErrorCode.NONE, True)
    assert voted(quorum.ask(vote_for(3, 5), vote.VoteResponse)) == (ErrorCode.NONE, False)
    again = Quorum(saved=ElectionState(5, voted=ReplicaKey(2, directory(2))))
    assert voted(again.ask(vote_for(3, 5), vote.VoteResponse)) == (ErrorCode.NONE, False)
    assert voted(again.ask(vote_for(2, 5), vote.VoteResponse)) == (ErrorCode.NONE, True)


def test_a_vote_goes_out_after_it_is_on_disk() -> None:
    quorum = Quorum()
    quorum.node.request(1, vote_for(2, 5), 2, "CONTROLLER", quorum.now)
    ready = quorum.node.ready()
    assert ready is not None
    assert ready.election == ElectionState(5, voted=ReplicaKey(2, directory(2)))
    assert [reply.token for reply in ready.replies] == [1]


def test_who_has_less_of_the_log_gets_no_vote() -> None:
    log = LogState(0, 10, ((1, 0), (3, 6)))
    for end, granted in (((9, 3), False), ((20, 2), False), ((10, 3), True), ((1, 4), True)):
        assert voted(Quorum(log=log).ask(vote_for(2, 9, end=end), vote.VoteResponse)) == (ErrorCode.NONE, granted)


def test_a_pre_vote_changes_nothing() -> None:
    quorum = Quorum()
    assert voted(quorum.ask(vote_for(2, 0, pre=True), vote.VoteResponse)) == (ErrorCode.NONE, True)
    assert voted(quorum.ask(vote_for(3, 0, pre=True), vote.VoteResponse)) == (ErrorCode.NONE, True)
    assert quorum.node.role == Unattached(0)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote_for(2, 5, end=(3, 5)), ErrorCode.INVALID_REQUEST),  # a candidate has raised its epoch
        (vote_for(2, 5, end=(3, 6), pre=True), ErrorCode.INVALID_REQUEST),
        (vote_for(2, 5, end=(-1, 0)), ErrorCode.INVALID_REQUEST),
        (vote_for(-1, 5), ErrorCode.INVALID_REQUEST),
        (vote_for(2, 3), ErrorCode.FENCED_LEADER_EPOCH),
        (vote_for(2, 5, voter_id=9), ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_votes_that_cannot_be_given(request_: vote.VoteRequest, error: ErrorCode) -> None:
    quorum = Quorum(saved=ElectionState(4))
    assert voted(quorum.ask(request_, vote.VoteResponse)) == (error, False)


def test_another_cluster_and_another_partition_are_refused() -> None:
    quorum = Quorum()
    assert quorum.ask(vote_for(2, 5, cluster_id="d"), vote.VoteResponse).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert quorum.ask(vote_for(2, 5, topics=[]), vote.VoteResponse).error_code == ErrorCode.INVALID_REQUEST
    assert quorum.node.epoch == 0


def begin(leader: int, epoch: int) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.RequestPartitionData(leader_id=leader, leader_epoch=epoch)
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id="c",
        voter_id=1,
        topics=[begin_quorum_epoch.RequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[begin_quorum_epoch.LeaderEndpoint(name="CONTROLLER", host="moved", port=1)],
    )


def test_a_leader_that_says_so_is_followed_where_it_says_it_is() -> None:
    quorum = Quorum()
    answer = quorum.ask(begin(2, 3), begin_quorum_epoch.BeginQuorumEpochResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert isinstance(quorum.node.role, Follower)
    assert quorum.node.leader_endpoint() == Endpoint("moved", 1)
    late = quorum.ask(begin(3, 2), begin_quorum_epoch.BeginQuorumEpochResponse)
    assert late.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (late.node_endpoints[0].node_id, late.node_endpoints[0].host) == (2, "moved")
    other = quorum.ask(begin(3, 3), begin_quorum_epoch.BeginQuorumEpochResponse)
    assert other.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert quorum.node.leader_id == 2


@pytest.mark.parametrize(("successors", "waits"), [((1, 3), 0), ((3, 1), 500), ((3,), 1000), ((), 0)])
def test_a_successor_stands_in_its_turn(successors: tuple[int, ...], waits: int) -> None:
    quorum = Quorum(saved=ElectionState(3, 2))
    partition = end_quorum_epoch.RequestPartitionData(
        leader_id=2, leader_epoch=3, preferred_successors=list(successors)
    )
    topic = end_quorum_epoch.RequestTopicData(topic_name=TOPIC, partitions=[partition])
    quorum.node.request(1, end_quorum_epoch.EndQuorumEpochRequest(topics=[topic]), 0, "CONTROLLER", quorum.now)
    if waits:
        quorum.node.tick(quorum.now + waits - 1)
        assert isinstance(quorum.node.role, Follower)
    quorum.node.tick(quorum.now + waits)
    assert type(quorum.node.role).__name__ == "Prospective"


def fetched(offset: int, last_epoch: int, epoch: int, *, wait: int = 0, by: int = 9) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=directory(by),
        high_watermark=-1 if wait == 0 else 2**63 - 1,
    )
    return fetch.FetchRequest(
        cluster_id="c",
        replica_state=fetch.ReplicaState(replica_id=by),
        max_wait_ms=wait,
        max_bytes=1000,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def test_an_observer_is_given_records_and_the_leader_where_it_asked() -> None:
    quorum = Quorum(voters=1).led()
    quorum.node.request(3, fetched(0, 0, 1), 18, "INNER", quorum.now)
    quorum.carry()
    reply = quorum.replies[3]
    assert reply.read == LogRead(0, 3, 1000)
    assert isinstance(reply.response, fetch.FetchResponse)
    partition = reply.response.responses[0].partitions[0]
    assert (partition.high_watermark, partition.current_leader.leader_id) == (3, 1)
    assert (reply.response.node_endpoints[0].host, reply.response.node_endpoints[0].port) == ("inner1", 7001)


def test_a_fetch_waits_for_records_and_for_its_time() -> None:
    quorum = Quorum(voters=1).led()
    quorum.node.request(3, fetched(3, 1, 1, wait=400), 18, "CONTROLLER", quorum.now)
    assert not quorum.carry()
    assert quorum.node.next_deadline_ms() == quorum.now + 400
    quorum.node.propose([b"news"], quorum.now)
    quorum.carry()
    assert quorum.replies.pop(3).read == LogRead(3, 4, 1000)
    quorum.node.request(4, fetched(4, 1, 1, wait=400), 18, "CONTROLLER", quorum.now)
    quorum.node.request(5, fetched(4, 1, 1, wait=400), 18, "CONTROLLER", quorum.now)
    quorum.node.forget(5)
    quorum.node.tick(quorum.now + 400)
    quorum.carry()
    assert quorum.replies.pop(4).read is None
    assert not quorum.replies


def test_a_fetch_that_waits_hears_of_the_end_of_the_leadership() -> None:
    quorum = Quorum(voters=1).led()
    quorum.node.request(3, fetched(3, 1, 1, wait=400), 18, "CONTROLLER", quorum.now)
    quorum.node.request(4, vote_for(2, 8), 2, "CONTROLLER", quorum.now)
    quorum.carry()
    answer = quorum.replies[3].response
    assert isinstance(answer, fetch.FetchResponse)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetched(0, 0, 0), ErrorCode.FENCED_LEADER_EPOCH),
        (fetched(0, 0, 2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetched(-1, 0, 1), ErrorCode.INVALID_REQUEST),
        (fetched(0, 2, 1), ErrorCode.INVALID_REQUEST),
        (fetched(0, 0, 1, wait=-1), ErrorCode.INVALID_REQUEST),
        (fetched(0, 0, 1, by=1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_fetches_that_are_refused(request_: fetch.FetchRequest, error: ErrorCode) -> None:
    answer = Quorum(voters=1).led().ask(request_, fetch.FetchResponse)
    assert answer.responses[0].partitions[0].error_code == error


def test_a_fetch_from_what_the_log_does_not_have_is_sent_back_or_to_a_snapshot() -> None:
    quorum = Quorum(voters=1, log=LogState(0, 10, ((1, 0), (3, 6))), saved=ElectionState(3, 1)).led()
    diverging = quorum.ask(fetched(8, 2, 4), fetch.FetchResponse).responses[0].partitions[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (1, 6)
    quorum.node.snapshot_written(SnapshotInfo(OffsetAndEpoch(8, 3), 100))
    quorum.node.log_trimmed(8)
    for offset, epoch in ((0, 0), (5, 1), (8, 2)):
        told = quorum.ask(fetched(offset, epoch, 4), fetch.FetchResponse).responses[0].partitions[0].snapshot_id
        assert (told.end_offset, told.epoch) == (8, 3)


def stretch(
    position: int, snapshot: tuple[int, int] = (8, 3), topic: str = TOPIC
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=4,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        position=position,
    )
    topics = [fetch_snapshot.RequestTopicSnapshot(name=topic, partitions=[partition])]
    return fetch_snapshot.FetchSnapshotRequest(cluster_id="c", replica_id=9, max_bytes=60, topics=topics)


def test_a_snapshot_is_served_by_stretches() -> None:
    quorum = Quorum(voters=1, log=LogState(0, 10, ((1, 0), (3, 6))), saved=ElectionState(3, 1)).led()
    quorum.node.snapshot_written(SnapshotInfo(OffsetAndEpoch(8, 3), 100))
    quorum.node.request(3, stretch(60), 1, "CONTROLLER", quorum.now)
    quorum.carry()
    assert quorum.replies[3].read == SnapshotRead(OffsetAndEpoch(8, 3), 60, 40)
    for request, error in (
        (stretch(100), ErrorCode.POSITION_OUT_OF_RANGE),
        (stretch(-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (stretch(0, (7, 3)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (stretch(0, topic="t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        answer = quorum.ask(request, fetch_snapshot.FetchSnapshotResponse)
        assert answer.topics[0].partitions[0].error_code == error


def added(n: int, listener: str = "CONTROLLER") -> add_raft_voter.AddRaftVoterRequest:
    where = add_raft_voter.Listener(name=listener, host=f"host{n}", port=9000 + n)
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id="c", voter_id=n, voter_directory_id=directory(n), listeners=[where]
    )


def test_voters_that_cannot_be_added_or_removed() -> None:
    quorum = Quorum(voters=1).led()
    kind, gone = add_raft_voter.AddRaftVoterResponse, remove_raft_voter.RemoveRaftVoterResponse
    assert quorum.ask(added(1), kind).error_code == ErrorCode.DUPLICATE_VOTER
    assert quorum.ask(added(2, "INNER"), kind).error_code == ErrorCode.INVALID_REQUEST
    no_directory = add_raft_voter.AddRaftVoterRequest(cluster_id=None, voter_id=2, voter_directory_id=ZERO_UUID)
    assert quorum.ask(no_directory, kind).error_code == ErrorCode.INVALID_REQUEST
    only = remove_raft_voter.RemoveRaftVoterRequest(cluster_id="c", voter_id=1, voter_directory_id=directory(1))
    assert quorum.ask(only, gone).error_code == ErrorCode.VOTER_NOT_FOUND
    other = remove_raft_voter.RemoveRaftVoterRequest(cluster_id="d", voter_id=1, voter_directory_id=directory(1))
    assert quorum.ask(other, gone).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    follower = Quorum(saved=ElectionState(3, 2))
    assert follower.ask(added(4), kind).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_voter_that_does_not_answer_or_lags_is_not_added() -> None:
    quorum = Quorum(voters=1).led()
    feature = api_versions.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    for response in (None, api_versions.ApiVersionsResponse(supported_features=[feature])):
        quorum.node.request(3, added(2), 1, "CONTROLLER", quorum.now)
        out = quorum.carry()[0].requests[0]
        assert quorum.ask(added(3), add_raft_voter.AddRaftVoterResponse).error_code == ErrorCode.REQUEST_TIMED_OUT
        quorum.node.response(out.request_id, response, quorum.now)
        quorum.carry()
        answer = quorum.replies.pop(3).response
        assert isinstance(answer, add_raft_voter.AddRaftVoterResponse)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        quorum.now += 100


def test_a_static_quorum_learns_its_voters_and_is_upgraded() -> None:
    quorum = Quorum(voters=0)
    addresses = {n: Endpoint(f"host{n}", 9000 + n) for n in (1,)}
    quorum.node = quorum.made(ControlState(static_voters(addresses, "CONTROLLER")), None, None)
    quorum.led()
    refused = quorum.ask(added(2), add_raft_voter.AddRaftVoterResponse)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    stranger = update_raft_voter.UpdateRaftVoterRequest(
        cluster_id="c",
        current_leader_epoch=1,
        voter_id=2,
        voter_directory_id=directory(2),
        listeners=[update_raft_voter.Listener(name="CONTROLLER", host="host2", port=9002)],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    answer = quorum.ask(stranger, update_raft_voter.UpdateRaftVoterResponse)
    assert (answer.error_code, answer.current_leader.leader_id) == (ErrorCode.VOTER_NOT_FOUND, 1)
    with pytest.raises(ValueError, match=r"does not run kraft\.version 2"):
        quorum.node.upgrade_kraft_version(2, quorum.now)
    assert quorum.node.upgrade_kraft_version(1, quorum.now, validate_only=True) is None
    proposal = quorum.node.upgrade_kraft_version(1, quorum.now)
    assert proposal is not None
    quorum.carry()
    assert quorum.node.high_watermark == proposal.end_offset
    assert quorum.node.control.voters.last.value.has(voter(1).key)
    assert quorum.node.upgrade_kraft_version(1, quorum.now) is None
    with pytest.raises(ValueError, match="cannot be lowered"):
        quorum.node.upgrade_kraft_version(0, quorum.now)


def described(topic: str = TOPIC) -> describe_quorum.DescribeQuorumRequest:
    partitions = [describe_quorum.RequestPartitionData()]
    return describe_quorum.DescribeQuorumRequest(
        topics=[describe_quorum.RequestTopicData(topic_name=topic, partitions=partitions)]
    )


def test_the_leader_describes_voters_and_observers() -> None:
    quorum = Quorum(voters=1).led()
    quorum.ask(fetched(0, 0, 1), fetch.FetchResponse)
    answer = quorum.ask(described(), describe_quorum.DescribeQuorumResponse)
    partition = answer.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 3)
    assert [(v.replica_id, v.log_end_offset) for v in partition.current_voters] == [(1, 3)]
    assert [(o.replica_id, o.log_end_offset, o.last_fetch_timestamp) for o in partition.observers] == [(9, 0, 10_000)]
    assert [(n.node_id, len(n.listeners)) for n in answer.nodes] == [(1, 2)]
    quorum.now += 300_000
    later = quorum.ask(described(), describe_quorum.DescribeQuorumResponse, version=0)
    assert not later.topics[0].partitions[0].observers
    assert not later.nodes
    other = quorum.ask(described("t"), describe_quorum.DescribeQuorumResponse)
    assert other.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    follower = Quorum(saved=ElectionState(3, 2)).ask(described(), describe_quorum.DescribeQuorumResponse)
    assert follower.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def elected() -> Quorum:
    """Give the leader of three."""
    quorum = Quorum()
    quorum.now += 3000
    quorum.node.tick(quorum.now)
    for epoch in (0, 1):
        found = [out for ready in quorum.carry() for out in ready.requests]
        partition = vote.ResponsePartitionData(leader_id=-1, leader_epoch=epoch, vote_granted=True)
        topic = vote.ResponseTopicData(topic_name=TOPIC, partitions=[partition])
        quorum.node.response(found[-1].request_id, vote.VoteResponse(topics=[topic]), quorum.now)
    quorum.carry()
    assert isinstance(quorum.node.role, Leader)
    return quorum


def test_a_leader_without_a_majority_of_fetches_gives_up() -> None:
    quorum = elected()
    quorum.wait(2999)
    quorum.ask(fetched(0, 0, 1, by=2), fetch.FetchResponse)
    quorum.wait(2999)
    assert quorum.node.leader_id == 1
    quorum.wait(1)
    assert quorum.node.leader_id is None


def stand_still(quorum: Quorum, ms: int) -> None:
    """Let time go by in which the process does nothing; then it looks at its deadlines."""
    quorum.now += ms
    quorum.node.tick(quorum.now)


def test_a_leader_whose_process_stood_still_reads_what_has_come_before_it_gives_up() -> None:
    quorum = elected()
    for _ in range(2):
        stand_still(quorum, 10_000)
        assert quorum.node.leader_id == 1
        quorum.ask(fetched(0, 0, 1, by=2), fetch.FetchResponse)
        quorum.wait(2999)
        assert quorum.node.leader_id == 1
    quorum.wait(1)
    assert quorum.node.leader_id is None


def test_a_leader_whose_process_stood_still_is_given_time_once_and_only_when_it_is_up() -> None:
    quorum = elected()
    stand_still(quorum, 1400)
    stand_still(quorum, 1400)
    quorum.wait(999)
    assert quorum.node.leader_id == 1
    stand_still(quorum, 5000)
    assert quorum.node.leader_id is None
