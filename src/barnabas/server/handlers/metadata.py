"""Metadata v0-13 (v8 authorized operations, v10 topic ids, v12 by topic id, v13 top-level error). KIP-430, KIP-516.

Asking for a topic that does not exist may create it, through the controller and in the name of who asks (KIP-590).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.topic_names import invalid_name
from barnabas.core.metadata.topics import TopicImage
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.core.metadata.topics import PartitionRegistration
    from barnabas.server.context import RequestContext

NO_LEADER: Final = -1


@handles(MetadataRequest, authz=BY_HANDLER)
async def metadata(request: MetadataRequest, ctx: RequestContext) -> MetadataResponse:
    """Describe brokers and topics as far as the principal may know of them."""
    _check(request, ctx)
    by_id = [t.topic_id for t in request.topics or () if t.topic_id != ZERO_UUID]
    if not by_id and any(t.name is None for t in request.topics or ()):
        ctx.authz.decided = True
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka's word for a topic with neither name nor id
    everything = request.topics is None or (ctx.version == 0 and not request.topics)
    if everything:
        topics = _all(ctx)
    elif by_id:
        topics = [_by_id(topic_id, ctx) for topic_id in dict.fromkeys(by_id)]
    else:
        topics = await _by_name(request, ctx)
    if ctx.version >= 8 and request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.topic_authorized_operations = ctx.authorized_operations(ResourceType.TOPIC, topic.name)
    node = ctx.node
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
            for b in node.known_brokers(ctx.listener_name)
        ],
        cluster_id=node.cluster_id,
        controller_id=node.shown_controller(),
        topics=topics,
        cluster_authorized_operations=_cluster_operations(request, ctx),
    )


def _check(request: MetadataRequest, ctx: RequestContext) -> None:
    ctx.authz.decided = not request.topics
    if request.topics is None or ctx.version >= 12:
        return
    if any(t.name is None or t.topic_id != ZERO_UUID for t in request.topics):
        ctx.authz.decided = True
        raise ApiError(ErrorCode.INVALID_REQUEST, "topics are named by id from version 12 on")


def _cluster_operations(request: MetadataRequest, ctx: RequestContext) -> int:
    if not 8 <= ctx.version <= 10 or not request.include_cluster_authorized_operations:
        return MetadataResponse().cluster_authorized_operations
    if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return ctx.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _all(ctx: RequestContext) -> list[MetadataResponseTopic]:
    by_name = ctx.node.image().topics.by_name
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, by_name, audit_denied=False)
    return [_found(by_name[name], ctx) for name in sorted(allowed)]


def _by_id(topic_id: Uuid, ctx: RequestContext) -> MetadataResponseTopic:
    topic = ctx.node.image().topics.by_id.get(topic_id)
    if topic is None:
        ctx.authz.decided = True
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not ctx.authorize(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic.id)
    return _found(topic, ctx)


async def _by_name(request: MetadataRequest, ctx: RequestContext) -> list[MetadataResponseTopic]:
    names = list(dict.fromkeys(t.name or "" for t in request.topics or ()))
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    by_name = ctx.node.image().topics.by_name
    missing = [name for name in names if name in allowed and name not in by_name]
    wanted = request.allow_auto_topic_creation and ctx.node.config["auto.create.topics.enable"]
    # The controller decides whether the client may create them, and its audit trail says so (KIP-590).
    errors = await ctx.node.auto_create(missing, ctx) if missing and wanted else {}
    by_name = ctx.node.image().topics.by_name
    answers = []
    for name in names:
        topic = by_name.get(name) if name in allowed else None
        if name not in allowed:
            answers.append(_error(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is not None:
            answers.append(_found(topic, ctx))
        else:
            answers.append(_error(name, errors.get(name) or _missing(name)))
    return answers


def _missing(name: str) -> ErrorCode:
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _error(name: str, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _found(topic: TopicImage, ctx: RequestContext) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(number, p, ctx) for number, p in sorted(topic.partitions.items())],
    )


def _partition(number: int, registration: PartitionRegistration, ctx: RequestContext) -> MetadataResponsePartition:
    live = ctx.node.live_broker_ids()
    offline = [r for r in registration.replicas if r not in live]
    code = ErrorCode.NONE
    if registration.leader == NO_LEADER or registration.leader not in live:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif not ctx.node.has_listener(registration.leader, ctx.listener_name):
        code = ErrorCode.LISTENER_NOT_FOUND if ctx.version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    elif ctx.version == 0 and offline:
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=number,
        leader_id=registration.leader,
        leader_epoch=registration.leader_epoch,
        replica_nodes=list(registration.replicas),
        isr_nodes=list(registration.isr),
        offline_replicas=offline,
    )
