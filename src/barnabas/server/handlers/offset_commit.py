"""OffsetCommit v2-10 (v2-4 retention time, v6 leader epoch, v7 static members, v10 topic ids). KIP-211, KIP-848."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.core.metadata.image import MetadataImage
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_WITH_TOPIC_IDS = 10


@handles(OffsetCommitRequest, authz=BY_HANDLER)
def offset_commit(
    request: OffsetCommitRequest, ctx: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit offsets for partitions that exist and that the principal may read."""
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refusal(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    image = ctx.node.image()
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    if by_id:
        name_topics(request.topics, image)
    allowed = ctx.authorize_many(
        AclOperation.READ, ResourceType.TOPIC, [t.name for t in request.topics if t.name or not by_id]
    )
    refused: list[OffsetCommitResponseTopic] = []
    wanted: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        if by_id and not topic.name:
            refused.append(_refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif topic.name not in allowed:
            refused.append(_refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            _split(topic, image, wanted, refused)
    if not wanted:
        return OffsetCommitResponse(topics=refused)
    request.topics = wanted
    try:
        answer = ctx.node.groups.commit_offsets(request, ctx.version)
    except ApiError as e:
        return OffsetCommitResponse(topics=_merged(refused, refusal(wanted, e.code).topics))
    return _with_the_rest(request, answer, refused) if refused else answer


async def _with_the_rest(
    request: OffsetCommitRequest, answer: Awaitable[OffsetCommitResponse], refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    try:
        response = await answer
    except ApiError as e:
        response = refusal(request.topics, e.code)
    return OffsetCommitResponse(topics=_merged(refused, response.topics))


def name_topics(topics: list[OffsetCommitRequestTopic], image: MetadataImage) -> None:
    """Put names to the ids, as far as there are any."""
    for topic in topics:
        found = image.topics.by_id.get(topic.topic_id)
        topic.name = found.name if found is not None else ""


def refusal(topics: list[OffsetCommitRequestTopic], code: ErrorCode) -> OffsetCommitResponse:
    """Refuse everything for one reason."""
    return OffsetCommitResponse(topics=[_refuse(topic, code) for topic in topics])


def _refuse(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code) for p in topic.partitions
        ],
    )


def _split(
    topic: OffsetCommitRequestTopic,
    image: MetadataImage,
    wanted: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
) -> None:
    found = image.topics.by_name.get(topic.name)
    if found is None:
        refused.append(_refuse(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    known = [p for p in topic.partitions if p.partition_index in found.partitions]
    if len(known) < len(topic.partitions):
        missing = [p for p in topic.partitions if p.partition_index not in found.partitions]
        rest = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=missing)
        refused.append(_refuse(rest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if known:
        topic.topic_id, topic.partitions = found.id, known
        wanted.append(topic)


def _merged(
    refused: list[OffsetCommitResponseTopic], answered: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Give each topic once, the refused partitions first; as they were asked, where none is refused."""
    if not refused:
        return answered
    by_topic = {t.name or t.topic_id: t for t in refused}
    for topic in answered:
        same = by_topic.setdefault(topic.name or topic.topic_id, topic)
        if same is not topic:
            same.partitions += topic.partitions
    return list(by_topic.values())
