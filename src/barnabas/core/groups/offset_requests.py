"""What clients and time ask of committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, expiry (KIP-211)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.core.groups import records
from barnabas.core.groups.classic import DEAD, EMPTY, PREPARING, STABLE, ClassicGroup
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.consumer import commits as consumer_commits
from barnabas.core.groups.consumer import records as consumer_records
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.image import ShardImage
from barnabas.core.groups.offsets import CommittedOffset, Place, is_other_topic
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.wire.records.offset_commit_value import OffsetCommitValue

Records = list[CoordinatorRecord]
MAX_TIME_MS: Final = 2**63 - 1
"""What a record can hold; a client may ask to keep its offsets for longer."""


class _Committed(Protocol):
    """What a client commits for a partition, in a transaction or not."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def commit(config: GroupConfig, request: OffsetCommitRequest, now_ms: int) -> tuple[Records, OffsetCommitResponse]:
    """Give the records of a commit that is allowed; topics carry names and ids (the zero id when unknown)."""
    made: Records = []
    topics = []
    expires = request.retention_time_ms != -1
    expire_ms = min(now_ms + request.retention_time_ms, MAX_TIME_MS) if expires else -1
    version = records.OFFSET_COMMIT_WITH_EXPIRY_VERSION if expires else records.OFFSET_COMMIT_VERSION
    for topic in request.topics:
        answers = []
        for p in topic.partitions:
            error = _refusal(config, p)
            if error is ErrorCode.NONE:
                value = _value(p, now_ms, expire_ms, topic.topic_id)
                made.append(records.offset_commit(request.group_id, topic.name, p.partition_index, value, version))
            answers.append(OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error))
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return made, OffsetCommitResponse(topics=topics)


def commit_in_transaction(
    config: GroupConfig, request: TxnOffsetCommitRequest, now_ms: int
) -> tuple[Records, TxnOffsetCommitResponse]:
    """Give the records of a commit in a producer's transaction that is allowed; they name no topic ids."""
    made: Records = []
    topics = []
    version = records.OFFSET_COMMIT_VERSION
    for topic in request.topics:
        answers = []
        for p in topic.partitions:
            error = _refusal(config, p)
            if error is ErrorCode.NONE:
                value = _value(p, now_ms)
                made.append(records.offset_commit(request.group_id, topic.name, p.partition_index, value, version))
            answers.append(TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    return made, TxnOffsetCommitResponse(topics=topics)


def _refusal(config: GroupConfig, p: _Committed) -> ErrorCode:
    """Give why a partition's offset is not taken, NONE when it is."""
    too_large = _java_length(p.committed_metadata or "") > config.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE


def _value(p: _Committed, now_ms: int, expire_ms: int = -1, topic_id: Uuid = ZERO_UUID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=p.committed_offset,
        leader_epoch=max(p.committed_leader_epoch, -1),
        metadata=p.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )


def _java_length(text: str) -> int:
    """Count as Java does: a character beyond the basic plane is two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def fetch(image: ShardImage, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
    """Give what the group committed: for the partitions asked, or for all when topics is None.

    require_stable: UNSTABLE_OFFSET_COMMIT where an open transaction may still change it (KIP-447). Raises what is
    wrong with one who says that it is a member of a consumer group (KIP-848).
    """
    group, consumers = image.groups.get(request.group_id), image.consumers.get(request.group_id)
    if consumers is not None:
        consumer_commits.check_fetch(consumers, request.member_id, request.member_epoch)
    known = consumers is not None or (group is not None and group.state is not DEAD)
    if request.topics is None:
        topics = image.offsets.topics(request.group_id) if known else []
        answers = [
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    _fetched(image, Place(request.group_id, topic, index), committed, require_stable)
                    for index, committed in partitions
                ],
            )
            for topic, partitions in topics
        ]
    else:
        answers = []
        for asked in request.topics:
            fetched = []
            for index in asked.partition_indexes:
                place = Place(request.group_id, asked.name, index)
                committed = image.offsets.get(place) if known else None
                if committed is not None and is_other_topic(committed, asked.topic_id):
                    committed = None
                fetched.append(_fetched(image, place, committed, require_stable))
            answers.append(OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=fetched))
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=answers)


def _fetched(
    image: ShardImage, place: Place, committed: CommittedOffset | None, require_stable: bool
) -> OffsetFetchResponsePartitions:
    unstable = require_stable and image.offsets.is_unstable(place)
    if committed is None or unstable:
        return OffsetFetchResponsePartitions(
            partition_index=place.partition,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE,
        )
    return OffsetFetchResponsePartitions(
        partition_index=place.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def delete(image: ShardImage, request: OffsetDeleteRequest) -> tuple[Records, OffsetDeleteResponse]:
    """Give the tombstones of the offsets that may go: of topics that no member is subscribed to (KIP-496)."""
    group = image.groups.get(request.group_id) or image.consumers.get(request.group_id)
    if group is None or group.state is DEAD:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and group.state is not EMPTY and not group.uses_consumer_protocol:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    made: Records = []
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        answers = []
        for p in topic.partitions:
            answers.append(OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=error))
            place = Place(request.group_id, topic.name, p.partition_index)
            if not subscribed and (image.offsets.get(place) or image.offsets.is_unstable(place)):
                made.append(records.offset_tombstone(*place))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return made, OffsetDeleteResponse(topics=topics)


def delete_group(image: ShardImage, group_id: str) -> Records:
    """Give the tombstones of a group without members and of all its offsets; raises why it must stay."""
    group = image.groups.get(group_id) or image.consumers.get(group_id)
    if group is None or group.state is DEAD:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not is_empty(group):
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    return [*(records.offset_tombstone(*place) for place in image.offsets.places(group_id)), *tombstones(group)]


def is_empty(group: ClassicGroup | ConsumerGroup) -> bool:
    """Whether the group has no members, nor expects any."""
    return group.is_empty if isinstance(group, ConsumerGroup) else group.state is EMPTY


def tombstones(group: ClassicGroup | ConsumerGroup) -> Records:
    """Give the records that end the group itself."""
    if isinstance(group, ConsumerGroup):
        return consumer_records.group_tombstones(group)
    return [records.group_tombstone(group.group_id)]


def expired(
    config: GroupConfig, image: ShardImage, group: ClassicGroup | ConsumerGroup, now_ms: int
) -> tuple[Records, bool]:
    """Give the tombstones of a group's expired offsets, and whether nothing keeps its offsets any more."""
    group_id = group.group_id
    open_transaction = image.offsets.has_open_transaction(group_id)
    if group_id not in image.offsets.by_group:
        return [], not open_transaction
    if isinstance(group, ClassicGroup) and not _may_expire(group):
        return [], False
    made: Records = []
    all_expired = True
    for topic, partitions in image.offsets.topics(group_id):
        kept = group.is_subscribed(topic)
        for index, committed in partitions:
            place = Place(group_id, topic, index)
            base = _retention_base_ms(group, committed)
            due = committed.is_expired(base, now_ms, config.offsets_retention_ms)
            if kept or not due or image.offsets.is_unstable(place):
                all_expired = False
            else:
                made.append(records.offset_tombstone(*place))
    return made, all_expired and not open_transaction


def _may_expire(group: ClassicGroup) -> bool:
    """Whether offsets of the group can expire at all: not while it rebalances or reads we know not what."""
    if group.protocol_type is None or group.state is EMPTY:
        return True
    return group.state is STABLE and group.uses_consumer_protocol and group.subscribed_topics is not None


def _retention_base_ms(group: ClassicGroup | ConsumerGroup, committed: CommittedOffset) -> int:
    """Give the time from which retention counts: when the last member left, else the commit's own."""
    if isinstance(group, ConsumerGroup):
        return committed.commit_ms
    if group.protocol_type is not None and group.state is EMPTY and group.timestamp_ms is not None:
        return group.timestamp_ms
    return committed.commit_ms


def of_deleted_topics(image: ShardImage, deleted: Iterable[tuple[str, Uuid]]) -> Records:
    """Give the tombstones of all offsets, pending ones too, of topics that are gone: (name, id)."""
    wanted = dict(deleted)
    made: dict[Place, None] = {}
    for group_id in sorted(image.offsets.by_group):
        for topic, partitions in image.offsets.topics(group_id):
            if topic in wanted:
                for index, committed in partitions:
                    if committed.topic_id in (ZERO_UUID, wanted[topic]):
                        made[Place(group_id, topic, index)] = None
    for _, mine in sorted(image.offsets.pending.items()):
        for place, committed in sorted(mine.items()):
            if place.topic in wanted and committed.topic_id in (ZERO_UUID, wanted[place.topic]):
                made[place] = None
    return [records.offset_tombstone(*place) for place in made]


def extends_session(group: ClassicGroup) -> bool:
    """Whether a commit counts as a sign of life of the member."""
    return group.state in (STABLE, PREPARING)
