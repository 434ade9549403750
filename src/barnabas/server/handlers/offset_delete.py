"""OffsetDelete v0. KIP-496."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(OffsetDeleteRequest, authz=BY_HANDLER)
async def offset_delete(request: OffsetDeleteRequest, ctx: RequestContext) -> OffsetDeleteResponse:
    """Delete offsets of topics that the group does not read."""
    if not ctx.authorize(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed = ctx.authorize_many(AclOperation.READ, ResourceType.TOPIC, [t.name for t in request.topics])
    by_name = ctx.node.image().topics.by_name
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    wanted = []
    for topic in request.topics:
        found = by_name.get(topic.name)
        known = found.partitions if found is not None and topic.name in allowed else ()
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name not in allowed:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        good = [p for p in topic.partitions if p.partition_index in known]
        bad = [p for p in topic.partitions if p.partition_index not in known]
        if bad:
            refused[topic.name] = [
                OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=code) for p in bad
            ]
        if good:
            wanted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=good))
    try:
        answer = await ctx.node.groups.delete_offsets(OffsetDeleteRequest(group_id=request.group_id, topics=wanted))
    except ApiError as e:
        return OffsetDeleteResponse(error_code=e.code)
    for done in answer.topics:
        refused.setdefault(done.name, []).extend(done.partitions)
    return OffsetDeleteResponse(
        topics=[OffsetDeleteResponseTopic(name=name, partitions=parts) for name, parts in refused.items()]
    )
