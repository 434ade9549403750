"""What a read asks a cluster before it fetches: which partitions there are, and which offsets stand for a bound."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from barnabas.client.cluster import Cluster, CoordinatorKind, TopicInfo
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.explain import RefusedError, about
from barnabas.spark.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtTimestamp,
    Bound,
    Edge,
    OptionError,
    PartitionOffsets,
    SpecificOffsets,
    describe_partitions,
)
from barnabas.spark.options import Assignment, Selection, TopicNames
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

_TIMESTAMPS: Final = {Edge.EARLIEST: EARLIEST_OFFSET, Edge.LATEST: LATEST_OFFSET}
_NOT_FOUND: Final = -1
_MISSING_TOPIC_PATIENCE_MS: Final = 5_000
"""A topic that was just created may not be known everywhere yet."""


async def partitions(cluster: Cluster, selection: Selection) -> tuple[TopicPartition, ...]:
    """Give the partitions a selection means now, in order; ApiError when one cannot be had."""
    if isinstance(selection, Assignment):
        known = await partitions(cluster, TopicNames(tuple({p.topic: None for p in selection.partitions})))
        missing = set(selection.partitions) - set(known)
        if missing:
            raise OptionError(f"assign names partitions that do not exist: {describe_partitions(missing)}")
        return selection.partitions
    if isinstance(selection, TopicNames):
        infos = [await _topic_anew(cluster, topic) for topic in selection.topics]
    else:
        matches = re.compile(selection.pattern).fullmatch
        infos = [info for name, info in (await cluster.topics()).items() if matches(name)]
    return tuple(sorted(TopicPartition(info.name, number) for info in infos for number in info.partitions))


async def _topic_anew(cluster: Cluster, name: str) -> TopicInfo:
    cluster.forget_topic(name)
    with about(name):
        return await cluster.retry(lambda: cluster.topic(name), timeout_ms=_MISSING_TOPIC_PATIENCE_MS)


async def edge(cluster: Cluster, wanted: Iterable[TopicPartition], which: Edge, *, committed: bool) -> PartitionOffsets:
    """Give the first or the end offsets of logs; committed: the end is where the first open transaction starts."""
    return await _list(cluster, dict.fromkeys(wanted, _TIMESTAMPS[which]), committed)


async def resolve(
    cluster: Cluster, wanted: Collection[TopicPartition], bound: Bound, option: str, *, committed: bool
) -> PartitionOffsets:
    """Give the offset that `bound` means in each partition; OptionError when the option leaves some out."""
    if isinstance(bound, Edge):
        return await edge(cluster, wanted, bound, committed=committed)
    if isinstance(bound, SpecificOffsets):
        _check_complete(option, wanted, bound.offsets)
        marks = {p: bound.offsets[p] for p in wanted if bound.offsets[p] < 0}
        return {**bound.offsets, **await _list(cluster, marks, committed)}
    return await _at_timestamp(cluster, wanted, bound, option, committed)


def _check_complete(option: str, wanted: Collection[TopicPartition], given: Collection[TopicPartition]) -> None:
    missing, strange = set(wanted) - set(given), set(given) - set(wanted)
    if missing:
        raise OptionError(
            f"{option} gives nothing for {describe_partitions(missing)}; name every partition that is read"
        )
    if strange:
        raise OptionError(f"{option} names {describe_partitions(strange)}, which this query does not read")


async def _at_timestamp(
    cluster: Cluster, wanted: Collection[TopicPartition], bound: AtTimestamp, option: str, committed: bool
) -> PartitionOffsets:
    if bound.by_partition_ms is not None:
        _check_complete(option, wanted, bound.by_partition_ms.keys())
    times = {partition: time for partition in wanted if (time := bound.of(partition)) is not None}
    found = await _list(cluster, times, committed)
    later = [partition for partition, offset in found.items() if offset == _NOT_FOUND]
    if later and not bound.latest_when_none:
        raise OptionError(
            f"{option}: no record is as late as the time asked for in {describe_partitions(later)}; "
            "to start at the end there, set startingOffsetsByTimestampStrategy to latest"
        )
    return {**found, **await edge(cluster, later, Edge.LATEST, committed=committed)}


async def _list(cluster: Cluster, times: Mapping[TopicPartition, int], committed: bool) -> PartitionOffsets:
    async def once() -> PartitionOffsets:
        found: PartitionOffsets = {}
        for topic_name in sorted({partition.topic for partition in times}):
            with about(topic_name):
                await cluster.topic(topic_name)
        for node, group in sorted((await cluster.by_leader(times)).items()):
            request = _list_request({partition: times[partition] for partition in group}, committed)
            response: ListOffsetsResponse = await (await cluster.channel(node)).call(request)
            for topic in response.topics:
                for row in topic.partitions:
                    if row.error_code != ErrorCode.NONE:
                        raise RefusedError(ErrorCode(row.error_code), topic.name)
                    found[TopicPartition(topic.name, row.partition_index)] = row.offset
        return found

    return await cluster.retry(once) if times else {}


def _list_request(times: Mapping[TopicPartition, int], committed: bool) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for partition, time in times.items():
        by_topic.setdefault(partition.topic, []).append(
            ListOffsetsPartition(partition_index=partition.partition, timestamp=time)
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
    )


async def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Store offsets for a group without being a member of it; ApiError when one is refused."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in sorted(offsets.items()):
        by_topic.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
    )

    async def once() -> None:
        response: OffsetCommitResponse = await cluster.call_coordinator(
            CoordinatorKind.GROUP, group, request, max_version=9
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                    cluster.forget_coordinator(CoordinatorKind.GROUP, group)
                if row.error_code != ErrorCode.NONE:
                    code = ErrorCode(row.error_code)
                    about_topic = code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    raise RefusedError(code, topic.name if about_topic else group)

    if by_topic:
        with about(group):
            await cluster.retry(once)
