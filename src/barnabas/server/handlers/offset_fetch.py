"""OffsetFetch v1-10 (v2 all partitions, v7 require_stable, v8 many groups, v10 topic ids).

KIP-447, KIP-709, KIP-848.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import ZERO_UUID
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


@handles(OffsetFetchRequest, authz=BY_HANDLER)
async def offset_fetch(request: OffsetFetchRequest, ctx: RequestContext) -> OffsetFetchResponse:
    """Give what groups committed, for the topics that the principal may describe."""
    if ctx.version >= FIRST_VERSION_WITH_MANY_GROUPS:
        ctx.authz.decided = not request.groups
        return OffsetFetchResponse(groups=[await _group(g, request.require_stable, ctx) for g in request.groups])
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _single(await _group(wanted, request.require_stable, ctx))


async def _group(
    wanted: OffsetFetchRequestGroup, require_stable: bool, ctx: RequestContext
) -> OffsetFetchResponseGroup:
    if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.GROUP, wanted.group_id):
        return _refuse(wanted, ErrorCode.GROUP_AUTHORIZATION_FAILED, ctx.version)
    try:
        if wanted.topics is None:
            found = await ctx.node.groups.fetch_offsets(wanted, require_stable=require_stable)
            found.topics = _visible(found.topics, ctx)
            return found
        known, refused = _known(wanted.topics, ctx)
        asked = OffsetFetchRequestGroup(
            group_id=wanted.group_id, member_id=wanted.member_id, member_epoch=wanted.member_epoch, topics=known
        )
        found = await ctx.node.groups.fetch_offsets(asked, require_stable=require_stable)
        found.topics += refused
    except ApiError as e:
        return _refuse(wanted, e.code, ctx.version)
    return found


def _known(
    topics: list[OffsetFetchRequestTopics], ctx: RequestContext
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    if by_id:
        image = ctx.node.image()
        for topic in topics:
            named = image.topics.by_id.get(topic.topic_id)
            topic.name = named.name if named is not None else ""
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, [t.name for t in topics if t.name])
    known, refused = [], []
    for topic in topics:
        if by_id and not topic.name:
            refused.append(_refuse_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif topic.name not in allowed:
            refused.append(_refuse_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            known.append(topic)
    return known, refused


def _visible(topics: list[OffsetFetchResponseTopics], ctx: RequestContext) -> list[OffsetFetchResponseTopics]:
    """Give the topics that the principal may know of; by id, only those that still have one."""
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, [t.name for t in topics])
    seen = [topic for topic in topics if topic.name in allowed]
    if ctx.version < FIRST_VERSION_WITH_TOPIC_IDS:
        return seen
    by_name = ctx.node.image().topics.by_name
    for topic in seen:
        found = by_name.get(topic.name)
        topic.topic_id = found.id if found is not None else ZERO_UUID
    return [topic for topic in seen if topic.topic_id != ZERO_UUID]


def _refuse(wanted: OffsetFetchRequestGroup, code: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    """Refuse the group; version 1 has no place for that but in its partitions."""
    topics = []
    if version < FIRST_VERSION_WITH_GROUP_ERROR:
        topics = [_refuse_topic(topic, code) for topic in wanted.topics or ()]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=code, topics=topics)


def _refuse_topic(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Give the response of versions that know one group."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=p.partition_index,
                        committed_offset=p.committed_offset,
                        committed_leader_epoch=p.committed_leader_epoch,
                        metadata=p.metadata,
                        error_code=p.error_code,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
