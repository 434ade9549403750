"""What the answer to a request means that we had sent before, and that may have been done then.

A controller that acts and is lost before it answers leaves the broker no choice but to send again, and the next one
finds the topic made, gone or grown already. A broker can prove that this was the same request's doing: the change was
not in the metadata when it first sent the request, it is there now, and it is what the request asked for. Then the
client hears success. Where the proof fails, the answer stays as it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

UNDERSTOOD: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})
"""APIs of which a second execution answers an error; the others give the same answer again."""


class TopicState(NamedTuple):
    """As much of a topic as a request can ask for."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


class Topics(Protocol):
    """The topics of the metadata at some moment."""

    def named(self, name: str) -> TopicState | None:
        """Give the topic of that name."""
        ...

    def with_id(self, topic_id: Uuid) -> TopicState | None:
        """Give the topic with that id."""
        ...


class Judged(NamedTuple):
    """An answer looked at. open: whether something in it may yet turn out to be our doing, as metadata come in."""

    response: Any
    open: bool


def judge(request: Any, response: Any, first: Topics, now: Topics) -> Judged:
    """Give the answer as the client should have it. first: when the request was first sent; now: as of now.

    The response is changed in place.
    """
    if isinstance(request, CreateTopicsRequest) and not request.validate_only:
        return Judged(response, _creations(request, response, first, now))
    if isinstance(request, DeleteTopicsRequest):
        return Judged(response, _deletions(response, first, now))
    if isinstance(request, CreatePartitionsRequest) and not request.validate_only:
        return Judged(response, _growths(request, response, first, now))
    return Judged(response, False)


def _creations(request: CreateTopicsRequest, response: CreateTopicsResponse, first: Topics, now: Topics) -> bool:
    wanted = {topic.name: topic for topic in request.topics}
    still_open = False
    for result in response.topics:
        asked = wanted.get(result.name)
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS or asked is None:
            continue
        before, there = first.named(result.name), now.named(result.name)
        if there is None or (before is not None and before.topic_id == there.topic_id):
            still_open |= before is None
        elif _is_as_asked(there, asked):
            _made(result, there)
    return still_open


def _is_as_asked(there: TopicState, asked: CreatableTopic) -> bool:
    if asked.assignments:
        return (len(asked.assignments), len(asked.assignments[0].broker_ids)) == (
            there.partitions,
            there.replication_factor,
        )
    return asked.num_partitions in (-1, there.partitions) and asked.replication_factor in (-1, there.replication_factor)


def _made(result: CreatableTopicResult, there: TopicState) -> None:
    result.error_code, result.error_message = ErrorCode.NONE, None
    result.topic_id = there.topic_id
    result.num_partitions, result.replication_factor = there.partitions, there.replication_factor
    result.configs = []


def _deletions(response: DeleteTopicsResponse, first: Topics, now: Topics) -> bool:
    still_open = False
    for result in response.responses:
        if result.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            continue
        before = _looked_for(result, first)
        if before is None:
            continue
        if now.with_id(before.topic_id) is not None:
            still_open = True
            continue
        result.error_code, result.error_message = ErrorCode.NONE, None
        result.name, result.topic_id = before.name, before.topic_id
    return still_open


def _looked_for(result: DeletableTopicResult, first: Topics) -> TopicState | None:
    if result.topic_id != ZERO_UUID:
        return first.with_id(result.topic_id)
    return first.named(result.name) if result.name is not None else None


def _growths(request: CreatePartitionsRequest, response: CreatePartitionsResponse, first: Topics, now: Topics) -> bool:
    wanted = {topic.name: topic.count for topic in request.topics}
    still_open = False
    for result in response.results:
        before, there = first.named(result.name), now.named(result.name)
        count = wanted.get(result.name)
        if result.error_code != ErrorCode.INVALID_PARTITIONS or count is None or before is None or there is None:
            continue
        if before.topic_id != there.topic_id or before.partitions >= count:
            continue
        if there.partitions == count:
            result.error_code, result.error_message = ErrorCode.NONE, None
        else:
            still_open |= there.partitions < count
    return still_open
