"""WriteTxnMarkers and TxnOffsetCommit on real logs: who may, what is written, and when it is said."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.server.handlers.group_world import allow
from tests.server.handlers.transaction_world import ALONE, FOLLOWED, SHARED, World, world
from tests.storage.logs import NOW_MS, batch

E = ErrorCode
Codes = dict[tuple[int, str, int], ErrorCode]


def marker(
    *partitions: tuple[str, int],
    pid: int = 7,
    epoch: int = 0,
    commit: bool = True,
    coordinator_epoch: int = 1,
    version: int = 0,
) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return WritableTxnMarker(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        topics=[WritableTxnMarkerTopic(name=t, partition_indexes=numbers) for t, numbers in topics.items()],
    )


async def write(w: World, *markers: WritableTxnMarker, version: int = 2) -> Codes:
    answer = await w.ask(WriteTxnMarkersRequest(markers=list(markers)), WriteTxnMarkersResponse, version)
    return {
        (m.producer_id, t.name, p.partition_index): ErrorCode(p.error_code)
        for m in answer.markers
        for t in m.topics
        for p in t.partitions
    }


def data(pid: int = 7, epoch: int = 0) -> memoryview:
    return batch(b"x", producer=(pid, epoch, 0), transactional=True)


def offsets(
    topic: str = ALONE, *, partition: int = 0, group: str = "g", pid: int = 7, epoch: int = 0
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=pid,
        producer_epoch=epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=9)],
            )
        ],
    )


async def commit(w: World, request: TxnOffsetCommitRequest, version: int = 5) -> list[ErrorCode]:
    answer = await w.ask(request, TxnOffsetCommitResponse, version)
    return [ErrorCode(p.error_code) for t in answer.topics for p in t.partitions]


async def committed(w: World, *, stable: bool = True) -> tuple[int, ErrorCode]:
    topics = [OffsetFetchRequestTopics(name=ALONE, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=stable)
    found = (await w.ask(request, OffsetFetchResponse, 9)).groups[0].topics[0].partitions[0]
    return found.committed_offset, ErrorCode(found.error_code)


@pytest.mark.parametrize(("pid", "epoch"), [(-1, 0), (7, -1)])
async def test_a_marker_of_no_producer_is_refused(pid: int, epoch: int) -> None:
    """Kafka fails on it."""
    async with world() as w:
        assert await write(w, marker((ALONE, 0), pid=pid, epoch=epoch)) == {(pid, ALONE, 0): E.INVALID_REQUEST}
        assert w.partitions.replica(ALONE, 0).log.log_end_offset == 0


async def test_what_is_for_no_partition_is_not_answered() -> None:
    async with world() as w:
        nothing = marker(pid=8)
        nothing.topics = [WritableTxnMarkerTopic(name=ALONE)]
        request = WriteTxnMarkersRequest(markers=[marker(), nothing, marker((ALONE, 0), pid=9)])
        answer = await w.ask(request, WriteTxnMarkersResponse, 2)
        assert [(m.producer_id, [t.name for t in m.topics]) for m in answer.markers] == [(9, [ALONE])]


@pytest.mark.parametrize("version", [1, 2])
async def test_markers_end_transactions_where_they_are_led_and_say_elsewhere_why_not(version: int) -> None:
    async with world() as w:
        await w.produce((ALONE, 0, data()), (ALONE, 1, data()))
        await w.produce((ALONE, 0, data(8)))
        codes = await write(
            w,
            marker((ALONE, 0), (ALONE, 1), (ALONE, 5), (FOLLOWED, 0)),
            marker((ALONE, 0), pid=8, commit=False),
            version=version,
        )
        assert codes == {
            (7, ALONE, 0): E.NONE,
            (7, ALONE, 1): E.NONE,
            (7, ALONE, 5): E.UNKNOWN_TOPIC_OR_PARTITION,
            (7, FOLLOWED, 0): E.NOT_LEADER_OR_FOLLOWER,
            (8, ALONE, 0): E.NONE,
        }
        log = w.partition().log
        assert log.last_stable_offset == log.log_end_offset == 4
        assert [t.producer_id for t in log.aborted_transactions(0, 4)] == [8]


async def test_nothing_asked_is_nothing_answered() -> None:
    async with world() as w:
        assert await write(w) == {}


async def test_who_is_fenced_is_told_so_for_each_partition() -> None:
    async with world() as w:
        await w.produce((ALONE, 0, data(epoch=5)))
        assert await write(w, marker((ALONE, 0), epoch=5, version=2)) == {(7, ALONE, 0): E.INVALID_PRODUCER_EPOCH}
        assert await write(w, marker((ALONE, 0), epoch=6, version=2, coordinator_epoch=4)) == {(7, ALONE, 0): E.NONE}
        zombie = marker((ALONE, 0), epoch=7, version=2, coordinator_epoch=3)
        assert await write(w, zombie) == {(7, ALONE, 0): E.TRANSACTION_COORDINATOR_FENCED}


async def test_markers_are_answered_when_the_replicas_in_sync_have_them() -> None:
    async with world() as w:
        writing = asyncio.ensure_future(write(w, marker((SHARED, 0), (ALONE, 0)), marker((SHARED, 0), pid=8)))
        await w.grown(2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done()
        w.follow()
        assert set((await writing).values()) == {E.NONE}
        assert w.replicas.writes.size == 0


async def test_a_leader_that_resigns_meanwhile_says_so() -> None:
    async with world() as w:
        writing = asyncio.ensure_future(write(w, marker((SHARED, 0))))
        await w.grown(1)
        w.partition(SHARED).leave()
        assert await writing == {(7, SHARED, 0): E.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [(AclOperation.ALTER, True), (AclOperation.CLUSTER_ACTION, True), (AclOperation.DESCRIBE, False)],
)
async def test_brokers_and_administrators_write_markers_and_nobody_else(operation: AclOperation, allowed: bool) -> None:
    async with world([allow("User:alice", operation, ResourceType.CLUSTER, CLUSTER_NAME)]) as w:
        codes = await write(w, marker((ALONE, 0)))
        assert set(codes.values()) == {E.NONE if allowed else E.CLUSTER_AUTHORIZATION_FAILED}
        assert w.partition().log.log_end_offset == (1 if allowed else 0)


@pytest.mark.parametrize("version", range(6))
async def test_offsets_of_a_transaction_count_by_its_marker(version: int) -> None:
    async with world() as w:
        assert await commit(w, offsets(), version) == [E.NONE]
        where = TopicPartition(OFFSETS_TOPIC, 0)
        assert w.coordinator.asked == [("add" if version >= 5 else "verify", "x", 7, 0, (where,))]
        assert await committed(w) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        assert await committed(w, stable=False) == (-1, E.NONE)
        assert await write(w, marker((OFFSETS_TOPIC, 0))) == {(7, OFFSETS_TOPIC, 0): E.NONE}
        assert await committed(w) == (9, E.NONE)
        log = w.partition(OFFSETS_TOPIC).log
        assert (log.last_stable_offset, len(log.producers.ongoing_txns)) == (2, 0)
        w.groups.resigned(0)
        await w.groups.elected(0)
        assert await committed(w) == (9, E.NONE)


async def test_offsets_of_an_aborted_transaction_vanish() -> None:
    async with world() as w:
        await commit(w, offsets())
        await write(w, marker((OFFSETS_TOPIC, 0), commit=False))
        assert await committed(w) == (-1, E.NONE)


async def test_late_offsets_of_a_fenced_producer_are_refused_and_change_nothing() -> None:
    async with world() as w:
        await commit(w, offsets(epoch=3))
        await write(w, marker((OFFSETS_TOPIC, 0), epoch=4, version=2))
        assert await commit(w, offsets(epoch=3)) == [E.INVALID_PRODUCER_EPOCH]
        assert await committed(w) == (9, E.NONE)
        stale = marker((OFFSETS_TOPIC, 0), epoch=3, version=2)
        assert await write(w, stale) == {(7, OFFSETS_TOPIC, 0): E.INVALID_PRODUCER_EPOCH}


async def test_offsets_whose_answer_comes_after_the_marker_are_refused() -> None:
    async with world() as w:
        w.coordinator.answers.clear()
        late = asyncio.ensure_future(commit(w, offsets(), 4))
        await w.coordinator.was_asked.wait()
        await write(w, marker((OFFSETS_TOPIC, 0)))
        w.coordinator.answers.set()
        assert await late == [E.INVALID_TXN_STATE]
        assert await committed(w) == (-1, E.NONE)


async def test_markers_for_groups_that_load_or_are_elsewhere_are_to_be_sent_again() -> None:
    async with world() as w:
        loading = w.groups.elected(0)
        assert await write(w, marker((OFFSETS_TOPIC, 0))) == {(7, OFFSETS_TOPIC, 0): E.NOT_LEADER_OR_FOLLOWER}
        await loading
        w.groups.resigned(0)
        assert await write(w, marker((OFFSETS_TOPIC, 0))) == {(7, OFFSETS_TOPIC, 0): E.NOT_LEADER_OR_FOLLOWER}
        assert w.partition(OFFSETS_TOPIC).log.log_end_offset == 0


@pytest.mark.parametrize(("version", "code"), [(1, E.COORDINATOR_NOT_AVAILABLE), (2, E.COORDINATOR_LOAD_IN_PROGRESS)])
async def test_old_producers_do_not_hear_that_groups_load(version: int, code: ErrorCode) -> None:
    async with world() as w:
        loading = w.groups.elected(0)
        w.replicas.verification.verifier = None
        assert await commit(w, offsets(), version) == [code]
        await loading


async def test_offsets_are_committed_only_where_one_may() -> None:
    rights = [
        (allow("User:alice", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x"), E.GROUP_AUTHORIZATION_FAILED),
        (allow("User:alice", AclOperation.READ, ResourceType.GROUP, "g"), E.TOPIC_AUTHORIZATION_FAILED),
        (allow("User:alice", AclOperation.READ, ResourceType.TOPIC, ALONE), E.NONE),
    ]
    async with world([]) as w:
        assert w.acls is not None
        assert await commit(w, offsets()) == [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        for right, code in rights:
            assert w.coordinator.asked == []
            w.acls.append(right)
            assert await commit(w, offsets()) == [code]


async def test_offsets_of_partitions_that_are_not_there_are_refused() -> None:
    async with world() as w:
        assert await commit(w, offsets("nobody's")) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        assert await commit(w, offsets(partition=7)) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        assert w.coordinator.asked == []


async def test_followers_tell_of_their_producers_too() -> None:
    async with world() as w:
        w.partition(FOLLOWED).log.append_as_follower(data())
        asked = DescribeProducersRequest(topics=[TopicRequest(name=FOLLOWED, partition_indexes=[0])])
        answer = await w.ask(asked, DescribeProducersResponse, 0)
        assert [p.producer_id for p in answer.topics[0].partitions[0].active_producers] == [7]


async def test_producers_are_described_and_offsets_listed_with_what_is_open() -> None:
    async with world() as w:
        await w.produce((ALONE, 0, batch(b"plain")), name=None)
        later = batch(b"x", producer=(7, 2, 0), transactional=True, timestamp=NOW_MS + 1)
        await w.produce((ALONE, 0, later))
        asked = DescribeProducersRequest(topics=[TopicRequest(name=ALONE, partition_indexes=[0])])

        async def described() -> tuple[int, ...]:
            answer = await w.ask(asked, DescribeProducersResponse, 0)
            (one,) = answer.topics[0].partitions[0].active_producers
            return one.producer_id, one.producer_epoch, one.coordinator_epoch, one.current_txn_start_offset

        async def latest(isolation: int, timestamp: int = -1) -> int:
            topics = [ListOffsetsTopic(name=ALONE, partitions=[ListOffsetsPartition(timestamp=timestamp)])]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            answer = await w.ask(request, ListOffsetsResponse, 7)
            return answer.topics[0].partitions[0].offset

        assert await described() == (7, 2, -1, 1)
        assert (await latest(0), await latest(1)) == (2, 1)
        largest, after = -3, NOW_MS + 1
        assert (await latest(0, largest), await latest(1, largest)) == (1, -1)
        assert (await latest(0, after), await latest(1, after)) == (1, -1)
        await write(w, marker((ALONE, 0), epoch=3, coordinator_epoch=6, version=2))
        assert await described() == (7, 3, 6, -1)
        assert (await latest(0), await latest(1)) == (3, 3)
