"""TxnOffsetCommit v0-5 (v2 leader epochs, v3 members, v4 TRANSACTION_ABORTABLE, v5 adds the group to the transaction).

KIP-98, KIP-447, KIP-890.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.image import MetadataImage
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

KNOWS_LOADING_FROM: Final = 2
"""The first version whose clients survive COORDINATOR_LOAD_IN_PROGRESS."""


@handles(TxnOffsetCommitRequest, authz=BY_HANDLER)
async def txn_offset_commit(request: TxnOffsetCommitRequest, ctx: RequestContext) -> TxnOffsetCommitResponse:
    """Commit offsets in a transaction, for partitions that exist and that the principal may read."""
    if not ctx.authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _refusal(request.topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refusal(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed = ctx.authorize_many(AclOperation.READ, ResourceType.TOPIC, [t.name for t in request.topics])
    image = ctx.node.image()
    refused: list[TxnOffsetCommitResponseTopic] = []
    wanted: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        if topic.name not in allowed:
            refused.append(_refuse(topic.name, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            _split(topic, image, wanted, refused)
    if not wanted:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = wanted
    try:
        response = await ctx.node.groups.commit_in_transaction(request, ctx.version)
    except ApiError as e:
        code = e.code
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.version < KNOWS_LOADING_FROM:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        response = _refusal(wanted, code)
    return TxnOffsetCommitResponse(topics=_merged(refused, response.topics))


def _split(
    topic: TxnOffsetCommitRequestTopic,
    image: MetadataImage,
    wanted: list[TxnOffsetCommitRequestTopic],
    refused: list[TxnOffsetCommitResponseTopic],
) -> None:
    found = image.topics.by_name.get(topic.name)
    existing = found.partitions if found is not None else {}
    known = [p for p in topic.partitions if p.partition_index in existing]
    missing = [p for p in topic.partitions if p.partition_index not in existing]
    if missing:
        refused.append(_refuse(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if known:
        wanted.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=known))


def _refusal(topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_refuse(t.name, t.partitions, code) for t in topics])


def _refuse(
    name: str, partitions: list[TxnOffsetCommitRequestPartition], code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code) for p in partitions
        ],
    )


def _merged(
    refused: list[TxnOffsetCommitResponseTopic], answered: list[TxnOffsetCommitResponseTopic]
) -> list[TxnOffsetCommitResponseTopic]:
    """Give each topic once, the refused partitions first; as they were asked, where none is refused."""
    if not refused:
        return answered
    by_name = {t.name: t for t in refused}
    for topic in answered:
        same = by_name.setdefault(topic.name, topic)
        if same is not topic:
            same.partitions += topic.partitions
    return list(by_name.values())
