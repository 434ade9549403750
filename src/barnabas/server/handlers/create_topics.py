"""CreateTopics v2-7 (v4 default counts, v5 configs in the answer, v7 topic ids). KIP-4, KIP-464, KIP-525, KIP-516."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.core.metadata.topic_changes import create_topics as decide
from barnabas.core.metadata.topic_changes import refused_topic
from barnabas.core.metadata.topic_names import CLUSTER_METADATA_TOPIC
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.quotas.mutations import mutation_quota
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(CreateTopicsRequest, authz=BY_HANDLER)
async def create_topics(req: CreateTopicsRequest, ctx: RequestContext) -> CreateTopicsResponse:
    """Create the topics that the principal may create: CREATE on the cluster, or on each topic."""
    times = Counter(topic.name for topic in req.topics)
    names = [name for name, count in times.items() if count == 1 and name != CLUSTER_METADATA_TOPIC]
    if ctx.authz.authorize(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, audit_denied=False):
        allowed = set(names)
    else:
        allowed = ctx.authorize_many(AclOperation.CREATE, ResourceType.TOPIC, names)
    describable = ctx.authz.authorize_many(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, audit_denied=False)
    attempted = replace(req, topics=[topic for topic in req.topics if topic.name in allowed])
    changes = ctx.node.changes
    plans = replace(changes.plans, take_quota=mutation_quota(ctx, strict_from=6))
    response = await ctx.node.controller.write(lambda image: decide(image, attempted, plans, describable))
    response.topics += [_refused(name, count) for name, count in times.items() if name not in allowed]
    response.throttle_time_ms = ctx.throttle_ms
    return response


def _refused(name: str, count: int) -> CreatableTopicResult:
    if count > 1:
        error = ApiError(ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
    elif name == CLUSTER_METADATA_TOPIC:
        error = ApiError(ErrorCode.INVALID_REQUEST, f"{name} is the cluster's own log and cannot be created")
    else:
        error = ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "not authorized: CREATE on this topic, or on the cluster, would allow it",
        )
    return refused_topic(name, error)
