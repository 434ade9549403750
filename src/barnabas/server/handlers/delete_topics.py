"""DeleteTopics v1-6 (v3 says when deletion is off, v5 messages, v6 topic ids). KIP-4, KIP-516."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import TakeQuota
from barnabas.core.metadata.topic_changes import delete_topics as decide
from barnabas.core.replicated import Decision
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.server.quotas.mutations import mutation_quota
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DeleteTopicsRequest, authz=BY_HANDLER)
async def delete_topics(req: DeleteTopicsRequest, ctx: RequestContext) -> DeleteTopicsResponse:
    """Delete the topics that the principal may delete: DELETE on the cluster, or on each topic."""
    on_cluster = ctx.authz.authorize(AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, audit_denied=False)
    if not ctx.node.config["delete.topic.enable"]:
        if ctx.version < 3:
            raise ApiError(ErrorCode.INVALID_REQUEST, "deleting topics is switched off (delete.topic.enable)")
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
    work = _Deletion(ctx, on_cluster, mutation_quota(ctx, strict_from=5))
    work.read([*(DeleteTopicState(name=name) for name in req.topic_names), *req.topics])
    results = await ctx.node.controller.write(work.decide)
    # Shuffled, so that the order does not tell absent topics from those that the principal may not see.
    random.shuffle(results)
    return DeleteTopicsResponse(responses=results, throttle_time_ms=ctx.throttle_ms)


class _Deletion:
    """One request, on its way to a decision."""

    def __init__(self, ctx: RequestContext, on_cluster: bool, take_quota: TakeQuota) -> None:
        self._ctx = ctx
        self._on_cluster = on_cluster
        self._take_quota = take_quota
        self._names: list[str] = []
        self._ids: list[Uuid] = []
        self._twice: set[Uuid] = set()
        self.results: list[DeletableTopicResult] = []

    def refuse(self, name: str | None, topic_id: Uuid, code: ErrorCode, message: str | None = None) -> None:
        """Add the result of a topic that stays."""
        error = ApiError(code, message)
        self.results.append(
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
        )

    def read(self, wanted: list[DeleteTopicState]) -> None:
        """Sort what is asked for into names and ids; what is asked for twice is refused."""
        names: Counter[str] = Counter()
        ids: Counter[Uuid] = Counter()
        for state in wanted:
            if state.name is not None and state.topic_id != ZERO_UUID:
                self.refuse(
                    state.name, state.topic_id, ErrorCode.INVALID_REQUEST, "give a topic's name or its id, not both"
                )
            elif state.name is not None:
                names[state.name] += 1
            elif state.topic_id != ZERO_UUID:
                ids[state.topic_id] += 1
            else:
                self.refuse(None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "give a topic's name or its id")
        for name, count in names.items():
            if count == 1:
                self._names.append(name)
            else:
                self.refuse(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
        for topic_id, count in ids.items():
            if count == 1:
                self._ids.append(topic_id)
            else:
                self._twice.add(topic_id)
                self.refuse(None, topic_id, ErrorCode.INVALID_REQUEST, "the request names this topic id more than once")

    def decide(self, image: MetadataImage) -> Decision[list[DeletableTopicResult]]:
        """Find the topics, ask for authorization by name, and delete those that may go."""
        by_id = image.topics.by_id
        asked = [*self._names, *(by_id[i].name for i in self._ids if i in by_id)]
        if self._on_cluster:
            describable = deletable = set(asked)
        else:
            describable = self._ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, asked)
            deletable = self._ctx.authorize_many(AclOperation.DELETE, ResourceType.TOPIC, asked)
        doomed: dict[Uuid, str] = {}
        self._by_id(image, describable, deletable, doomed)
        self._by_name(image, describable, deletable, doomed)
        decision = decide(image, list(doomed), self._take_quota)
        for topic_id, error in decision.response.items():
            code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
            self.refuse(doomed[topic_id], topic_id, code, message)
        return Decision(decision.records, self.results)

    def _by_id(self, image: MetadataImage, describable: set[str], deletable: set[str], doomed: dict[Uuid, str]) -> None:
        for topic_id in self._ids:
            topic = image.topics.by_id.get(topic_id)
            if topic is None:
                self.refuse(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
            elif topic.name in deletable:
                doomed[topic_id] = topic.name
            else:
                shown = topic.name if topic.name in describable else None
                self.refuse(shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _by_name(
        self, image: MetadataImage, describable: set[str], deletable: set[str], doomed: dict[Uuid, str]
    ) -> None:
        for name in self._names:
            topic = image.topics.by_name.get(name)
            if name not in describable:
                self.refuse(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif topic is None:
                self.refuse(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif name not in deletable:
                self.refuse(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif topic.id in doomed or topic.id in self._twice:
                self._twice.add(topic.id)
                doomed.pop(topic.id, None)
                self.refuse(name, topic.id, ErrorCode.INVALID_REQUEST, "the request names this topic by name and by id")
            else:
                doomed[topic.id] = name
