"""The runtime of group shards, on a log in memory and on the real one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from barnabas.core.groups.classic import ClassicGroupState
from barnabas.core.groups.config import GroupConfig
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.server.coordinators.coordinator_log import MemoryLog
from barnabas.server.coordinators.runtime import LogSettings, ShardState
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    decode_group_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.record_batch import (
    ControlType,
    Record,
    control_batch,
    decode_batch,
    encode_batch,
    read_header,
)
from barnabas.wire.records.end_txn_marker import EndTxnMarker
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue
from barnabas.wire.records.share_group_metadata_key import ShareGroupMetadataKey
from barnabas.wire.records.share_group_metadata_value import ShareGroupMetadataValue

E = ErrorCode


class WatchedLog(MemoryLog):
    """Says when something was appended."""

    def __init__(self, *, auto_commit: bool = True, max_batch_bytes: int = 1_048_588) -> None:
        super().__init__(auto_commit=auto_commit, max_batch_bytes=max_batch_bytes)
        self.appended = asyncio.Event()

    def append(self, batch: bytes | bytearray, **how: Any) -> int:
        offset = super().append(batch, **how)
        self.appended.set()
        return offset


@dataclass
class World:
    """A coordinator of all partitions, each on a log in memory that outlives it."""

    logs: dict[int, WatchedLog] = field(default_factory=dict)
    config: GroupConfig = field(default_factory=lambda: GroupConfig(initial_rebalance_delay_ms=0))
    partition_count: int = 1
    settings: LogSettings = field(default_factory=LogSettings)
    ids: int = 0

    def __post_init__(self) -> None:
        self.groups = self.restarted()

    def restarted(self) -> GroupCoordinator:
        """Give a coordinator that has yet to be elected anywhere."""
        return GroupCoordinator(
            self.config,
            clock=SystemClock(),
            new_uuid=self._new_uuid,
            partition_count=lambda: self.partition_count,
            open_log=lambda tp: self.log(tp.partition),
            settings=self.settings,
        )

    def log(self, partition: int = 0) -> WatchedLog:
        return self.logs.setdefault(partition, WatchedLog())

    def _new_uuid(self) -> Uuid:
        self.ids += 1
        return Uuid(self.ids.to_bytes(16, "big"))

    async def start(self) -> GroupCoordinator:
        for partition in range(self.partition_count):
            await self.groups.elected(partition)
        return self.groups


def decoded(batches: list[bytes]) -> list[CoordinatorRecord]:
    records = []
    for batch in batches:
        for record in decode_batch(batch):
            one = decode_group_record(record.key or b"", record.value)
            assert isinstance(one, CoordinatorRecord)
            records.append(one)
    return records


def commit_request(offset: int, group: str = "g", topic: str = "t", partitions: int = 1) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=p, committed_offset=offset) for p in range(partitions)
                ],
            )
        ],
    )


def codes(response: OffsetCommitResponse) -> list[int]:
    return [p.error_code for t in response.topics for p in t.partitions]


async def fetched(groups: GroupCoordinator, group: str = "g", *, require_stable: bool = False) -> dict[str, list[int]]:
    request = OffsetFetchRequestGroup(group_id=group, topics=None)
    response = await groups.fetch_offsets(request, require_stable=require_stable)
    return {t.name: [p.committed_offset for p in t.partitions] for t in response.topics}


async def join(groups: GroupCoordinator, group: str = "g", instance: str = "i") -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await groups.join(request, "client", "10.0.0.1", 9)


async def stable(groups: GroupCoordinator, group: str = "g") -> JoinGroupResponse:
    joined = await join(groups, group)
    await groups.sync(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        )
    )
    return joined


async def refusal(awaitable: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        await awaitable  # type: ignore[misc]
    return caught.value.code


async def appended(log: WatchedLog) -> None:
    """Wait for the next batch."""
    log.appended.clear()
    async with asyncio.timeout(60):
        await log.appended.wait()


async def test_committed_offsets_survive_a_restart() -> None:
    world = World()
    groups = await world.start()
    assert codes(await groups.commit_offsets(commit_request(5, partitions=3), 9)) == [0, 0, 0]
    await groups.close()
    groups = world.restarted()
    await groups.elected(0)
    assert await fetched(groups) == {"t": [5, 5, 5]}
    await groups.close()


async def test_a_group_survives_a_restart_with_its_assignment() -> None:
    world = World()
    groups = await world.start()
    joined = await stable(groups)
    await groups.close()
    groups = world.restarted()
    await groups.elected(0)
    request = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=joined.generation_id)
    assert (await groups.heartbeat(request)).error_code == E.NONE
    (described,) = groups.describe(["g"], 5)
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert [m.member_assignment for m in described.members] == [b"mine"]
    assert [m.client_host for m in described.members] == ["/10.0.0.1"]
    await groups.close()


async def test_requests_of_one_turn_share_a_batch() -> None:
    world = World()
    groups = await world.start()
    answers = await asyncio.gather(*(groups.commit_offsets(commit_request(n, f"g{n}"), 9) for n in range(10)))
    assert all(codes(a) == [0] for a in answers)
    assert [read_header(b).record_count for b in world.log().batches] == [10]
    assert {r.value.offset for r in decoded(world.log().batches) if isinstance(r.value, OffsetCommitValue)} == set(
        range(10)
    )
    await groups.close()


async def test_a_batch_that_is_committed_at_once_is_looked_at_once() -> None:
    world = World()
    groups = await world.start()
    told: list[int] = []
    groups.shards.by_partition[0].on_commit = lambda: told.append(world.log().high_watermark)
    for offset in range(3):
        assert codes(await groups.commit_offsets(commit_request(offset), 9)) == [0]
    assert told == [1, 2, 3]
    await groups.close()


async def test_a_batch_never_exceeds_what_the_topic_takes() -> None:
    world = World()
    world.logs[0] = WatchedLog(max_batch_bytes=2_000)
    groups = await world.start()
    await asyncio.gather(*(groups.commit_offsets(commit_request(n, f"g{n}", partitions=5), 9) for n in range(20)))
    assert len(world.log().batches) > 1
    assert max(map(len, world.log().batches)) <= 2_000
    too_much = groups.commit_offsets(commit_request(1, "big", partitions=100), 9)
    assert await refusal(too_much) is E.UNKNOWN_SERVER_ERROR
    assert await fetched(groups, "big") == {}
    await groups.close()


async def test_nothing_is_answered_or_shown_before_it_is_committed() -> None:
    world = World()
    log = world.logs[0] = WatchedLog(auto_commit=False)
    groups = await world.start()
    waiting = asyncio.ensure_future(groups.commit_offsets(commit_request(7), 9))
    stable_read = asyncio.ensure_future(fetched(groups, require_stable=True))
    await appended(log)
    assert not waiting.done()
    assert not stable_read.done()
    assert await fetched(groups) == {}
    log.commit(1)
    assert codes(await waiting) == [0]
    assert await stable_read == {"t": [7]}
    assert await fetched(groups) == {"t": [7]}
    await groups.close()


async def test_what_is_not_committed_in_time_is_said_and_counts_once_it_is() -> None:
    world = World(settings=LogSettings(commit_timeout_ms=1))
    log = world.logs[0] = WatchedLog(auto_commit=False)
    groups = await world.start()
    assert await refusal(groups.commit_offsets(commit_request(7), 9)) is E.COORDINATOR_NOT_AVAILABLE
    assert await fetched(groups) == {}
    log.commit(1)
    assert await fetched(groups) == {"t": [7]}
    await groups.close()


async def test_an_assignment_that_is_not_committed_in_time_is_refused_once() -> None:
    world = World(settings=LogSettings(commit_timeout_ms=1))
    log = world.logs[0] = WatchedLog()
    groups = await world.start()
    joined = await join(groups)
    log.auto_commit = False
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await groups.sync(request)).error_code == E.COORDINATOR_NOT_AVAILABLE
    log.commit(log.log_end_offset)
    assert (await join(groups)).error_code == E.NONE
    await groups.close()


async def test_what_the_log_refuses_is_undone_and_said() -> None:
    world = World()
    groups = await world.start()
    await groups.commit_offsets(commit_request(1), 9)
    world.log().failure = E.KAFKA_STORAGE_ERROR
    refused = await asyncio.gather(
        groups.commit_offsets(commit_request(2), 9),
        groups.commit_offsets(commit_request(3, "new"), 9),
        return_exceptions=True,
    )
    assert [e.code for e in refused if isinstance(e, ApiError)] == [E.NOT_COORDINATOR] * 2
    world.log().failure = None
    assert await fetched(groups) == {"t": [1]}
    assert [g.group_id for g in groups.listed([], [])] == ["g"]
    assert codes(await groups.commit_offsets(commit_request(4), 9)) == [0]
    assert await fetched(groups) == {"t": [4]}
    await groups.close()


async def test_a_new_group_that_cannot_be_stored_is_refused_and_forgotten() -> None:
    world = World()
    groups = await world.start()
    world.log().failure = E.NOT_LEADER_OR_FOLLOWER
    assert (await join(groups)).error_code == E.NOT_COORDINATOR
    world.log().failure = None
    assert groups.listed([], []) == []
    assert (await stable(groups)).error_code == E.NONE
    await groups.close()


async def test_an_assignment_that_cannot_be_stored_is_refused() -> None:
    world = World()
    groups = await world.start()
    joined = await join(groups)
    world.log().failure = E.NOT_ENOUGH_REPLICAS
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await groups.sync(request)).error_code == E.COORDINATOR_NOT_AVAILABLE
    await groups.close()


async def test_sessions_end_by_the_clock_of_the_loop() -> None:
    world = World(config=GroupConfig(initial_rebalance_delay_ms=0, min_session_timeout_ms=1))
    groups = await world.start()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30,
        rebalance_timeout_ms=30,
        group_instance_id="i",
        protocol_type="x",
        protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")],
    )
    joined = await groups.join(request, "c", "h", 9)
    assert joined.error_code == E.NONE
    await appended(world.log())
    assert groups.shards.at(0).shard.image.groups["g"].state is ClassicGroupState.EMPTY
    await groups.close()


async def test_resigning_sends_everybody_away_and_electing_again_brings_all_back() -> None:
    world = World(config=GroupConfig(initial_rebalance_delay_ms=60_000))
    groups = await world.start()
    await groups.commit_offsets(commit_request(9), 9)
    joining = asyncio.ensure_future(join(groups, "other"))
    await appended(world.log())
    groups.resigned(0)
    assert (await joining).error_code == E.NOT_COORDINATOR
    with pytest.raises(ApiError) as caught:
        await groups.commit_offsets(commit_request(10), 9)
    assert caught.value.code is E.NOT_COORDINATOR
    await groups.elected(0)
    assert await fetched(groups) == {"t": [9]}
    await groups.close()


async def test_requests_are_told_to_wait_while_groups_are_loaded() -> None:
    world = World()
    world.log().append(_offset_batch("g", "t", 0, 3))
    task = world.groups.elected(0)
    assert world.groups.shards.at(0).state is ShardState.LOADING
    assert await refusal(world.groups.commit_offsets(commit_request(1), 9)) is E.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(ApiError) as caught:
        world.groups.listed([], [])
    assert caught.value.code is E.COORDINATOR_LOAD_IN_PROGRESS
    await task
    assert await fetched(world.groups) == {"t": [3]}
    await world.groups.close()


async def test_a_log_whose_last_records_were_compacted_away_is_loaded() -> None:
    world = World()
    log = world.log()
    log.append(_offset_batch("g", "t", 0, 3))
    log.log_end_offset = log.high_watermark = 9
    groups = await world.start()
    assert await fetched(groups) == {"t": [3]}
    await groups.commit_offsets(commit_request(4), 9)
    assert read_header(log.batches[-1]).base_offset == 9
    assert await fetched(groups) == {"t": [4]}
    await groups.close()


async def test_a_damaged_log_leaves_its_groups_unserved() -> None:
    world = World()
    world.log().append(encode_batch([Record(0, 1, b"\x00\x01garbage", b"\x00\x01")]))
    await world.groups.elected(0)
    assert world.groups.shards.at(0).state is ShardState.FAILED
    assert await refusal(world.groups.commit_offsets(commit_request(1), 9)) is E.NOT_COORDINATOR
    await world.groups.close()


async def test_records_of_other_kinds_of_groups_are_left_alone() -> None:
    world = World()
    share = ShareGroupMetadataValue(epoch=5)
    newer = encode_coordinator_key(ShareGroupMetadataKey(group_id="new")), encode_coordinator_value(share, 0)
    world.log().append(encode_batch([Record(0, 1, *newer), Record(1, 1, b"\x7f\xff", b"\x00\x00")]))
    world.log().append(_offset_batch("g", "t", 0, 3))
    groups = await world.start()
    assert await fetched(groups) == {"t": [3]}
    assert [g.group_id for g in groups.listed([], [])] == ["g"]
    await groups.close()


@pytest.mark.parametrize(("kind", "want"), [(ControlType.COMMIT, 9), (ControlType.ABORT, 3)])
async def test_offsets_of_transactions_count_when_they_are_committed(kind: ControlType, want: int) -> None:
    world = World()
    log = world.log()
    log.append(_offset_batch("g", "t", 0, 3))
    log.append(_offset_batch("g", "t", 0, 9, producer_id=77))
    groups = await world.start()
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    held = await groups.fetch_offsets(request, require_stable=True)
    assert held.topics[0].partitions[0].error_code == E.UNSTABLE_OFFSET_COMMIT
    assert await fetched(groups) == {"t": [3]}
    await groups.close()
    log.append(
        control_batch([(kind, EndTxnMarker())], timestamp=1, producer_id=77, producer_epoch=0, transactional=True)
    )
    groups = world.restarted()
    await groups.elected(0)
    assert await fetched(groups, require_stable=True) == {"t": [want]}
    await groups.close()


def _offset_batch(group: str, topic: str, partition: int, offset: int, producer_id: int = -1) -> bytes:
    key = encode_coordinator_key(OffsetCommitKey(group=group, topic=topic, partition=partition))
    value = encode_coordinator_value(OffsetCommitValue(offset=offset, commit_timestamp=1), 3)
    return encode_batch(
        [Record(0, 1, key, value)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


async def test_groups_are_spread_over_partitions_and_administered_together() -> None:
    world = World(partition_count=5)
    groups = await world.start()
    names = [f"group-{n}" for n in range(20)]
    for name in names:
        await groups.commit_offsets(commit_request(1, name), 9)
    assert sum(1 for log in world.logs.values() if log.batches) == 5
    assert sorted(g.group_id for g in groups.listed([], [])) == sorted(names)
    assert [g.group_state for g in groups.describe([*names, "none"], 5)] == ["Empty"] * 20 + ["Dead"]
    results = await groups.delete_groups([*names, "none"])
    assert {r.group_id: r.error_code for r in results} == dict.fromkeys(names, 0) | {"none": E.GROUP_ID_NOT_FOUND}
    assert groups.listed([], []) == []
    await groups.close()


async def test_offsets_of_deleted_topics_are_forgotten() -> None:
    world = World()
    groups = await world.start()
    await groups.commit_offsets(commit_request(1), 9)
    await groups.commit_offsets(commit_request(1, topic="other"), 9)
    groups.topics_deleted([("t", Uuid(b"t" * 16))])
    assert await fetched(groups, require_stable=True) == {"other": [1]}
    await groups.close()


async def test_leaving_is_answered_when_the_empty_group_is_stored() -> None:
    world = World()
    groups = await world.start()
    joined = await stable(groups)
    before = len(world.log().batches)
    response = await groups.leave(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    assert [m.error_code for m in response.members] == [E.NONE]
    assert len(world.log().batches) == before + 1
    await groups.close()
    assert await refusal(_never(groups)) is E.COORDINATOR_NOT_AVAILABLE


async def _never(groups: GroupCoordinator) -> None:
    await groups.commit_offsets(commit_request(1), 9)


async def test_a_partition_whose_log_cannot_be_opened_is_not_served() -> None:
    def offline(tp: object) -> WatchedLog:
        raise ApiError(E.KAFKA_STORAGE_ERROR)

    world = World()
    groups = GroupCoordinator(
        world.config, clock=SystemClock(), new_uuid=world._new_uuid, partition_count=lambda: 1, open_log=offline
    )
    await groups.elected(0)
    assert await refusal(_never(groups)) is E.NOT_COORDINATOR
    await groups.close()
