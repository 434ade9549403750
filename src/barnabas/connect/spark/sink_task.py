"""A sink's task: a member of the group `connect-<name>` whose batches are ranges of offsets, committed when durable."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame

from barnabas.client.admin.groups import CommittedOffset, GroupsAdmin
from barnabas.client.admin.topics import NewTopic, TopicsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.membership import GroupMembership
from barnabas.connect.connector import ConnectError, FencedError, Sink
from barnabas.connect.runtime import Assigned, Begun, OnEvent, Progress, TaskLaunch
from barnabas.connect.spark.batch_size import BatchSize
from barnabas.connect.spark.errors import AbandonedError
from barnabas.connect.spark.pipeline import SinkPipeline
from barnabas.connect.spark.planned_task import PlannedTask
from barnabas.connect.spark.reading import RangesReader, rows_of
from barnabas.connect.spark.task import Surroundings, log, ms_since
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark import lookup
from barnabas.spark.offsets import Edge, PartitionOffsets
from barnabas.spark.ranges import OffsetRange, admit
from barnabas.spark.schema import read_schema
from barnabas.wire.errors import ApiError, ErrorCode

T = TypeVar("T")
_MISSING_TOPIC_S: Final = 1.0
_FENCED: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class SinkTask(PlannedTask):
    """State: partitions and their positions, given by the group; one batch under way at most."""

    def __init__(self, launch: TaskLaunch, kind: type[Sink], around: Surroundings, on_event: OnEvent) -> None:
        super().__init__(launch, around, on_event)
        self._kind = kind
        self._sink: Sink | None = None
        self._pipeline = SinkPipeline(self.config, around.settings, self.id, self.tell)
        self._client = around.settings.consumer(self.id, launch.connector_config)
        self._size = BatchSize.of(self._client)
        self._cluster: Cluster | None = None
        self._membership: GroupMembership | None = None
        self._positions: PartitionOffsets = {}
        self._counted = (0, 0)
        self._waiting_since: float | None = None
        self._next_look = math.inf
        self._shared_out: Mapping[str, int] = {}
        self._uncommitted: Mapping[TopicPartition, int] = {}

    async def open(self) -> None:
        """Start the query and the membership; partitions come with the first step."""
        self._sink = self._kind.of(self.config)
        self._counter = self.around.spark.sparkContext.accumulator((0, 0), _Pairs())
        self._width = self.around.spark.sparkContext.defaultParallelism
        self._cluster = Cluster(ClientConfig.from_properties(self._client))
        self._groups = GroupsAdmin(self._cluster)
        self._committed_only = self._client.get("isolation.level") == "read_committed"
        await self.open_query(self._width)
        await self._make_dead_letter_topic()
        await self._subscribe()

    async def step(self) -> bool:
        """Read what is new in this task's partitions, write it, commit."""
        assert self._cluster is not None
        if not await self.keep() or not await self._commit():
            return False
        latest = await lookup.edge(self._cluster, self._positions, Edge.LATEST, committed=self._committed_only)
        lost = [each for each in latest if latest[each] < self._positions[each]]
        if lost:
            self._positions |= await self._reset(lost)
        ends = admit(self._positions, latest, self._size.records)
        ranges = [OffsetRange(each, self._positions[each], ends[each]) for each in sorted(ends)]
        ranges = [each for each in ranges if each.size > 0]
        if not ranges or not self._ready(latest):
            return False
        await self._process(ranges, ends)
        return True

    async def keep(self) -> bool:
        """Stay a member; say whether there are partitions."""
        if time.monotonic() > self._next_look:
            await self._subscribe()
            await self._notice_partitions()
        assert self._membership is not None
        if await self._unless_stopped(self._membership.ensure_joined()):
            await self._take_over()
        return bool(self._positions)

    async def close(self) -> None:
        """Leave the group, end the query, close the sink."""
        self.cut_off.set()
        if self._membership is not None:
            await self._membership.leave()
        if self._cluster is not None:
            await self._cluster.close()
        await super().close()
        if self._sink is not None:
            await self.in_thread(self._sink.close)

    async def _make_dead_letter_topic(self) -> None:
        errors = self._pipeline.errors
        if not errors.dead_letters:
            return
        settings = self.around.settings.admin(self.id.connector, self.launch.connector_config)
        wanted = NewTopic(errors.dead_letters, 1, errors.dead_letter_replicas)
        async with Cluster(ClientConfig.from_properties(settings)) as cluster:
            refused = (await TopicsAdmin(cluster).create_topics([wanted]))[errors.dead_letters]
        if refused is not None and refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ConnectError(f"the dead letter topic {errors.dead_letters} cannot be made: {refused}") from refused

    # Which partitions, and from where.

    async def _subscribe(self) -> None:
        """Be a member that wants the topics of the configuration, which a pattern makes others from time to time."""
        assert self._cluster is not None
        wanted = await self._wanted_topics(self._cluster)
        before = self._membership
        if before is not None and list(before.topics) == wanted:
            return
        if before is not None:
            await before.leave("its pattern means other topics by now")
        self._membership = GroupMembership(self._cluster, self._client["group.id"], wanted)
        self._shared_out = await self._partition_counts()

    async def _notice_partitions(self) -> None:
        """Have the group share out anew where topics that are wanted, or partitions of them, have come or gone."""
        assert self._membership is not None
        counts = await self._partition_counts()
        if counts != self._shared_out:
            self._shared_out = counts
            self._membership.request_rejoin("its topics have other partitions by now")

    async def _partition_counts(self) -> Mapping[str, int]:
        """Give how many partitions each topic has that is wanted and there; look again soon for one that is not."""
        assert self._cluster is not None
        assert self._membership is not None
        wanted, known = self._membership.topics, await self._cluster.topics()
        found = {name: len(known[name].partitions) for name in wanted if name in known}
        age_s = self._cluster.config.integer("metadata.max.age.ms") / 1000
        self._next_look = time.monotonic() + (age_s if len(found) == len(wanted) else min(age_s, _MISSING_TOPIC_S))
        return found

    async def _wanted_topics(self, cluster: Cluster) -> list[str]:
        names = [name.strip() for name in self.config.get("topics", "").split(",") if name.strip()]
        pattern = self.config.get("topics.regex")
        if pattern:
            matches = re.compile(pattern).fullmatch
            names += [name for name in await cluster.topics() if matches(name)]
        elif not names:
            raise ConnectError("a sink needs topics or topics.regex")
        return sorted(set(names))

    async def _take_over(self) -> None:
        assert self._membership is not None
        assert self._sink is not None
        sink, partitions = self._sink, self._membership.partitions
        self.context.assignment = partitions
        own = await self.in_thread(lambda: self._opened(sink))
        known = await self._groups.group_offsets(self._membership.group, partitions, require_stable=True)
        positions = {each: found.offset for each, found in known.items() if each in partitions}
        # What the sink knows better, the group is told: lag is what the sink has not got.
        self._uncommitted = {
            each: offset for each, offset in (own or {}).items() if each in partitions and positions.get(each) != offset
        }
        positions |= self._uncommitted
        missing = [each for each in partitions if each not in positions]
        self._positions = positions | (await self._reset(missing) if missing else {})
        self.say(Assigned(len(self._positions)))

    def _opened(self, sink: Sink) -> Mapping[TopicPartition, int] | None:
        sink.open(self.around.spark, self.context)
        return sink.offsets()

    async def _reset(self, partitions: Sequence[TopicPartition]) -> PartitionOffsets:
        assert self._cluster is not None
        policy = self._client["auto.offset.reset"]
        if policy not in ("earliest", "latest"):
            raise ConnectError(
                f"there is no offset to begin from in {partitions[0]}, and auto.offset.reset is {policy}"
            )
        return await lookup.edge(self._cluster, partitions, Edge(policy), committed=self._committed_only)

    # A batch.

    def _ready(self, latest: Mapping[TopicPartition, int]) -> bool:
        """Ask the sink whether what waits is worth a batch; a batch that would be full always is."""
        assert self._sink is not None
        waiting = sum(latest[each] - offset for each, offset in self._positions.items())
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        waited_ms = round((now - self._waiting_since) * 1000)
        return waiting >= self._size.records or self._sink.ready(waiting, waited_ms)

    async def _process(self, ranges: Sequence[OffsetRange], ends: PartitionOffsets) -> None:
        begun = time.monotonic()
        self._waiting_since = None
        self.say(Begun(sum(each.size for each in ranges)))
        self.context.batch_begins = {each.partition: each.start for each in ranges}
        self.context.batch_offsets = {each.partition: each.end for each in ranges}
        try:
            batch_id = await self.query.run(rows_of(ranges, self._width))
        except FencedError as error:
            self._give_up(str(error))
            return
        except AbandonedError:
            return
        took_ms = ms_since(begun)
        for each in ranges:
            self.used(each.partition.topic)
        records, size = self._count(ranges)
        self._size.learn(records, size)
        self._positions = dict(ends)
        self._uncommitted = self.context.batch_offsets
        failed, passed = self._pipeline.failed, self._pipeline.passed
        dropped = 0 if passed is None else max(0, records - failed - passed)
        try:
            await self._commit()
        finally:
            self.say(Progress(batch_id, records, size, failed, took_ms, dict(self._positions), dropped))

    async def _commit(self) -> bool:
        """Commit what is written, as this member of this generation; False when the group has moved on without it."""
        assert self._membership is not None
        offsets = self._uncommitted
        if not offsets:
            return True
        try:
            async with self.committing():
                results = await self._groups.commit_offsets(
                    self._membership.group,
                    {each: CommittedOffset(offset) for each, offset in offsets.items()},
                    generation=self._membership.generation,
                    member_id=self._membership.member_id,
                )
                for refused in results.values():
                    if refused is not None:
                        raise refused
        except ApiError as error:
            if error.code not in _FENCED:
                raise
            self._give_up(str(error))
            return False
        self._uncommitted = {}
        return True

    def _give_up(self, why: str) -> None:
        """Ask the group anew which partitions are this task's, and from where."""
        assert self._membership is not None
        log.info("asking the group anew", task=str(self.id), why=why)
        self._membership.request_rejoin(why)

    def body(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch. Its records are read here and not in the query, so that what the sink makes of them is one
        plan with the reading."""
        assert self._sink is not None
        reader = RangesReader(self._client, self._counter)
        raw = frame.mapInArrow(reader, read_schema(headers=True))
        self._pipeline.write(self._sink, raw, batch_id, self.cut_off)

    def _count(self, ranges: Sequence[OffsetRange]) -> tuple[int, int]:
        """Give records and bytes of the batch; a sink that looked at it twice has had both counted twice."""
        before, now = self._counted, self._counter.value
        self._counted = now
        records, size = now[0] - before[0], now[1] - before[1]
        most = sum(each.size for each in ranges)
        return (most, size * most // records) if records > most else (records, size)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something, but not once the task is to stop; None then."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopped.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


class _Pairs(AccumulatorParam[tuple[int, int]]):
    """Adds up (records, bytes)."""

    def zero(self, value: tuple[int, int]) -> tuple[int, int]:
        return (0, 0)

    def addInPlace(self, value1: tuple[int, int], value2: tuple[int, int]) -> tuple[int, int]:  # noqa: N802
        return value1[0] + value2[0], value1[1] + value2[1]
