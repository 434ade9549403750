"""Offsets in transactions: a batch of their own in the log, and what their markers make of them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.coordinators.runtime import LogSettings, Marker
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.delete_groups import DeletableGroupResult
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from barnabas.wire.record_batch import Compression, decode_batch, decode_control, read_header
from barnabas.wire.records.end_txn_marker import EndTxnMarker
from tests.server.groups.test_coordinator import (
    WatchedLog,
    World,
    appended,
    codes,
    commit_request,
    fetched,
    refusal,
    stable,
)

E = ErrorCode
PRODUCER = Producer(77, 3)


def in_transaction(
    offset: int,
    producer: Producer = PRODUCER,
    group: str = "g",
    generation: int = -1,
    member: str = "",
    metadata: str = "",
) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(committed_offset=offset, committed_metadata=metadata)
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=generation,
        member_id=member,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def error_of(response: TxnOffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


async def is_unstable(groups: GroupCoordinator, group: str = "g") -> bool:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequestGroup(group_id=group, topics=topics)
    response = await groups.fetch_offsets(request, require_stable=True)
    return any(p.error_code == E.UNSTABLE_OFFSET_COMMIT for t in response.topics for p in t.partitions)


@pytest.mark.parametrize(("commit", "want"), [(True, 9), (False, 3)])
@pytest.mark.parametrize("restarted", [False, True])
async def test_pending_offsets_become_visible_or_vanish(commit: bool, want: int, restarted: bool) -> None:
    world = World()
    groups = await world.start()
    await groups.commit_offsets(commit_request(3), 9)
    assert error_of(await groups.commit_in_transaction(in_transaction(9), 5)) == E.NONE
    assert await fetched(groups) == {"t": [3]}
    assert await is_unstable(groups)
    await groups.end_transaction(0, Marker(Producer(78, 0), True, 1))
    assert await is_unstable(groups), "another producer's marker"
    if restarted:
        await groups.close()
        groups = world.restarted()
        await groups.elected(0)
        assert await is_unstable(groups)
    await groups.end_transaction(0, Marker(PRODUCER, commit, 1))
    assert not await is_unstable(groups)
    assert await fetched(groups) == {"t": [want]}
    await groups.close()
    again = world.restarted()
    await again.elected(0)
    assert await fetched(again) == {"t": [want]}
    await again.close()


async def test_offsets_of_a_transaction_are_a_batch_of_their_own_between_those_of_others() -> None:
    world = World(settings=LogSettings(linger_ms=60_000))
    groups = await world.start()
    before = asyncio.ensure_future(groups.commit_offsets(commit_request(1, group="a"), 9))
    inside = asyncio.ensure_future(groups.commit_in_transaction(in_transaction(9), 5))
    await inside
    await before
    after = asyncio.ensure_future(groups.commit_offsets(commit_request(2, group="a"), 9))
    await asyncio.sleep(0)
    await groups.end_transaction(0, Marker(PRODUCER, True, 4))
    await after
    headers = [read_header(b) for b in world.log().batches]
    plain = (False, False, -1, -1, -1)
    assert [(h.is_transactional, h.is_control, h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        plain,
        (True, False, 77, 3, -1),
        plain,
        (True, True, 77, 3, -1),
    ]
    control = decode_control(next(iter(decode_batch(world.log().batches[3]))))
    assert control is not None
    assert control[1] == EndTxnMarker(coordinator_epoch=4)
    await groups.close()


@pytest.mark.parametrize("fits", [True, False])
async def test_offsets_that_fit_once_they_are_compressed_are_of_the_transaction_all_the_same(fits: bool) -> None:
    world = World({0: WatchedLog(max_batch_bytes=1_000)}, settings=LogSettings(compression=Compression.GZIP))
    groups = await world.start()
    metadata = "x" * 2_000 if fits else Random(1).randbytes(1_500).hex()
    pending = groups.commit_in_transaction(in_transaction(9, metadata=metadata), 5)
    if fits:
        assert error_of(await pending) == E.NONE
        assert [read_header(batch).is_transactional for batch in world.log().batches] == [True]
        assert await is_unstable(groups)
    else:
        assert await refusal(pending) is E.UNKNOWN_SERVER_ERROR
        assert not world.log().batches
        assert not await is_unstable(groups)
    assert await fetched(groups) == {}
    await groups.close()


async def test_nothing_is_said_before_it_is_committed() -> None:
    world = World({0: WatchedLog(auto_commit=False)})
    groups = await world.start()
    pending = asyncio.ensure_future(groups.commit_in_transaction(in_transaction(9), 5))
    await appended(world.log())
    assert not pending.done()
    world.log().commit(1)
    await pending
    marked = asyncio.ensure_future(groups.end_transaction(0, Marker(PRODUCER, True, 1)))
    await asyncio.sleep(0)
    assert not marked.done()
    assert await fetched(groups) == {}
    world.log().commit(2)
    await marked
    assert await fetched(groups) == {"t": [9]}
    await groups.close()


async def test_a_marker_that_is_not_committed_in_time_is_said_as_the_log_says_it() -> None:
    world = World({0: WatchedLog(auto_commit=False)}, settings=LogSettings(commit_timeout_ms=1))
    groups = await world.start()
    assert await refusal(groups.end_transaction(0, Marker(PRODUCER, True, 1))) is E.REQUEST_TIMED_OUT
    await groups.close()


async def test_what_the_log_refuses_changes_nothing_and_touches_nobody_else() -> None:
    world = World(settings=LogSettings(linger_ms=60_000))
    groups = await world.start()
    await groups.commit_in_transaction(in_transaction(9), 5)
    before = asyncio.ensure_future(groups.commit_offsets(commit_request(1, group="a"), 9))
    await asyncio.sleep(0)
    original, world.log().append = world.log().append, _fencing(world.log())  # type: ignore[method-assign]
    stale = Producer(77, 2)
    assert await refusal(groups.commit_in_transaction(in_transaction(5, stale), 5)) is E.INVALID_PRODUCER_EPOCH
    assert codes(await before) == [E.NONE]
    assert await refusal(groups.end_transaction(0, Marker(stale, True, 1))) is E.INVALID_PRODUCER_EPOCH
    world.log().append = original  # type: ignore[method-assign]
    assert await is_unstable(groups)
    await groups.end_transaction(0, Marker(PRODUCER, True, 1))
    assert await fetched(groups) == {"t": [9]}
    await groups.close()


def _fencing(log: WatchedLog):  # type: ignore[no-untyped-def]
    original = log.append

    def append(batch: bytes | bytearray, **how: object) -> int:
        if read_header(batch).producer_epoch == 2:
            raise ApiError(E.INVALID_PRODUCER_EPOCH)
        return original(batch, **how)

    return append


@pytest.mark.parametrize("code", [E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS, E.TRANSACTION_COORDINATOR_FENCED])
async def test_markers_say_what_the_log_says_and_clients_what_they_understand(code: ErrorCode) -> None:
    world = World()
    groups = await world.start()
    await groups.commit_in_transaction(in_transaction(9), 5)
    world.log().failure = code
    assert await refusal(groups.end_transaction(0, Marker(PRODUCER, True, 1))) is code
    assert await is_unstable(groups)
    told = {E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE}
    assert await refusal(groups.commit_in_transaction(in_transaction(9), 5)) is told.get(code, code)
    await groups.close()


async def test_markers_of_shards_that_load_or_are_not_here_are_refused() -> None:
    world = World()
    loading = world.groups.elected(0)
    assert await refusal(world.groups.end_transaction(0, Marker(PRODUCER, True, 1))) is E.COORDINATOR_LOAD_IN_PROGRESS
    await loading
    with pytest.raises(ApiError) as caught:
        await world.groups.end_transaction(1, Marker(PRODUCER, True, 1))
    assert caught.value.code is E.NOT_COORDINATOR
    assert not world.log().batches
    await world.groups.close()


async def test_the_coordinator_is_asked_first_and_its_guard_goes_with_the_batch() -> None:
    world = World()
    groups = await world.start()
    guard, asked, guards = VerificationGuard(), [], []
    answers: list[ErrorCode] = [E.NONE, E.NETWORK_EXCEPTION, E.INVALID_TXN_STATE]

    async def verify(tp: TopicPartition, name: str, producer: Producer, version: int) -> VerificationGuard:
        asked.append((tp.partition, name, producer, version))
        if code := answers.pop(0):
            raise ApiError(code)
        return guard

    original = world.log().append

    def append(batch: bytes | bytearray, **how: object) -> int:
        guards.append(how.get("guard"))
        return original(batch, **how)

    groups._verify = verify
    world.log().append = append  # type: ignore[method-assign]
    await groups.commit_in_transaction(in_transaction(9), 4)
    assert (asked, guards) == ([(0, "x", PRODUCER, 4)], [guard])
    assert await refusal(groups.commit_in_transaction(in_transaction(9), 4)) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert await refusal(groups.commit_in_transaction(in_transaction(9), 4)) is E.INVALID_TXN_STATE
    assert await refusal(groups.commit_in_transaction(in_transaction(9, group=""), 4)) is E.INVALID_GROUP_ID
    assert len(asked) == 3
    await groups.close()


async def test_members_commit_with_their_generation_and_strangers_not_at_all() -> None:
    world = World()
    groups = await world.start()
    assert await refusal(groups.commit_in_transaction(in_transaction(1, generation=4), 3)) is E.ILLEGAL_GENERATION
    joined = await stable(groups)
    ok = in_transaction(1, generation=joined.generation_id, member=joined.member_id)
    assert error_of(await groups.commit_in_transaction(ok, 3)) == E.NONE
    late = in_transaction(1, generation=joined.generation_id - 1, member=joined.member_id)
    assert await refusal(groups.commit_in_transaction(late, 3)) is E.ILLEGAL_GENERATION
    stranger = in_transaction(1, generation=joined.generation_id, member="who")
    assert await refusal(groups.commit_in_transaction(stranger, 3)) is E.UNKNOWN_MEMBER_ID
    assert error_of(await groups.commit_in_transaction(in_transaction(1), 0)) == E.NONE, "old producers name nobody"
    await groups.close()


async def test_metadata_has_a_limit() -> None:
    groups = await World().start()
    too_long = in_transaction(1, metadata="x" * 5_000)
    assert error_of(await groups.commit_in_transaction(too_long, 5)) == E.OFFSET_METADATA_TOO_LARGE
    assert not await is_unstable(groups)
    await groups.close()


async def test_a_group_goes_with_its_pending_offsets() -> None:
    groups = await World().start()
    await groups.commit_in_transaction(in_transaction(9), 5)
    results: list[DeletableGroupResult] = await groups.delete_groups(["g"])
    assert [r.error_code for r in results] == [E.NONE]
    await groups.end_transaction(0, Marker(PRODUCER, True, 1))
    assert await fetched(groups) == {}
    await groups.close()
