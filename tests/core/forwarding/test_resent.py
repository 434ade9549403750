"""When the answer to a request sent twice is success after all, and when it is not (H-09)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from barnabas.core.forwarding.resent import TopicState, judge
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

pytestmark = pytest.mark.requirement("H-09")
OLD, NEW = Uuid(b"\0" * 15 + b"\x01"), Uuid(b"\0" * 15 + b"\x02")


@dataclass(frozen=True)
class Now:
    """Topics by name."""

    topics: dict[str, TopicState]

    def named(self, name: str) -> TopicState | None:
        return self.topics.get(name)

    def with_id(self, topic_id: Uuid) -> TopicState | None:
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)


def topics(*states: TopicState) -> Now:
    """Give these topics and no others."""
    return Now({state.name: state for state in states})


def t(topic_id: Uuid = NEW, partitions: int = 3, replication_factor: int = 2) -> TopicState:
    """Give the topic `t`."""
    return TopicState("t", topic_id, partitions, replication_factor)


def created(first: Now, now: Now, error: ErrorCode = ErrorCode.TOPIC_ALREADY_EXISTS, **asked: Any) -> tuple[int, bool]:
    """Give (error, still open) for a creation of `t`."""
    topic = CreatableTopic(name="t", **({"num_partitions": 3, "replication_factor": 2} | asked))
    request = CreateTopicsRequest(topics=[topic])
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=error, error_message="no")])
    judged = judge(request, response, first, now)
    result = judged.response.topics[0]
    if result.error_code == ErrorCode.NONE:
        assert (result.error_message, result.topic_id, result.num_partitions) == (None, NEW, 3)
    return result.error_code, judged.open


EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_that_came_since_and_is_as_asked_is_ours() -> None:
    assert created(topics(), topics(t())) == (ErrorCode.NONE, False)
    assert created(topics(), topics(t()), num_partitions=-1, replication_factor=-1) == (ErrorCode.NONE, False)
    assert created(topics(t(OLD)), topics(t(NEW))) == (ErrorCode.NONE, False)


def test_a_topic_that_was_there_is_not() -> None:
    assert created(topics(t(OLD)), topics(t(OLD))) == (EXISTS, False)


def test_a_topic_that_differs_from_what_was_asked_is_not() -> None:
    assert created(topics(), topics(t(partitions=4))) == (EXISTS, False)
    assert created(topics(), topics(t(replication_factor=1))) == (EXISTS, False)


def test_until_the_metadata_show_it_the_question_is_open() -> None:
    assert created(topics(), topics()) == (EXISTS, True)


def test_other_errors_stay() -> None:
    assert created(topics(), topics(t()), ErrorCode.POLICY_VIOLATION) == (ErrorCode.POLICY_VIOLATION, False)


def test_a_dry_run_creates_nothing() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3)], validate_only=True)
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=EXISTS)])
    assert judge(request, response, topics(), topics(t())).response.topics[0].error_code == EXISTS


@pytest.mark.parametrize("by_id", [False, True])
def test_a_topic_that_is_gone_since_was_deleted_by_us(by_id: bool) -> None:
    def deleted(first: Now, now: Now) -> tuple[int, bool]:
        if by_id:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=OLD)])
            result = DeletableTopicResult(name=None, topic_id=OLD, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            request = DeleteTopicsRequest(topic_names=["t"])
            result = DeletableTopicResult(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        judged = judge(request, DeleteTopicsResponse(responses=[result]), first, now)
        return judged.response.responses[0].error_code, judged.open

    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert deleted(topics(t(OLD)), topics()) == (ErrorCode.NONE, False)
    assert deleted(topics(t(OLD)), topics(t(NEW))) == (ErrorCode.NONE, False)
    assert deleted(topics(t(OLD)), topics(t(OLD))) == (unknown, True)
    assert deleted(topics(), topics()) == (unknown, False)


def test_a_topic_that_has_grown_since_was_grown_by_us() -> None:
    def grown(first: Now, now: Now) -> tuple[int, bool]:
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=6)])
        result = CreatePartitionsTopicResult(name="t", error_code=ErrorCode.INVALID_PARTITIONS)
        judged = judge(request, CreatePartitionsResponse(results=[result]), first, now)
        return judged.response.results[0].error_code, judged.open

    assert grown(topics(t()), topics(t(partitions=6))) == (ErrorCode.NONE, False)
    assert grown(topics(t()), topics(t())) == (ErrorCode.INVALID_PARTITIONS, True)
    assert grown(topics(t(partitions=6)), topics(t(partitions=6))) == (ErrorCode.INVALID_PARTITIONS, False)
    assert grown(topics(t()), topics(t(partitions=9))) == (ErrorCode.INVALID_PARTITIONS, False)
