"""CreatePartitions v0-3 (v3 mutation quotas). KIP-195, KIP-599."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.core.metadata.topic_changes import create_partitions as decide
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.quotas.mutations import mutation_quota
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(CreatePartitionsRequest, authz=BY_HANDLER)
async def create_partitions(req: CreatePartitionsRequest, ctx: RequestContext) -> CreatePartitionsResponse:
    """Grow the topics on which the principal has ALTER."""
    times = Counter(topic.name for topic in req.topics)
    allowed = ctx.authorize_many(
        AclOperation.ALTER, ResourceType.TOPIC, [name for name, count in times.items() if count == 1]
    )
    topics = [topic for topic in req.topics if topic.name in allowed]
    random_below = ctx.node.changes.plans.random_below
    quota = mutation_quota(ctx, strict_from=3)
    results = await ctx.node.controller.write(
        lambda image: decide(image, topics, random_below, validate_only=req.validate_only, take_quota=quota)
    )
    refused = [_refused(name, count) for name, count in times.items() if name not in allowed]
    return CreatePartitionsResponse(results=[*refused, *results], throttle_time_ms=ctx.throttle_ms)


def _refused(name: str, count: int) -> CreatePartitionsTopicResult:
    if count > 1:
        error = ApiError(ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
    else:
        error = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not authorized: ALTER on this topic would allow it")
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
