from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.cluster import Cluster as Client
from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from barnabas.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName


async def call(user: User, request: Any) -> Any:
    """Send one request as the user and give its answer."""
    async with Client(user.barnabas) as client:
        return await client.call_any(request)


def topics(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


async def test_topics_come_in_pages(barnabas: Cluster) -> None:
    for name, partitions in (("a", 2), ("b", 3), ("c", 1)):
        barnabas.create_topic(name, partitions)
    pages, cursor = [], None
    while True:
        answer = await call(barnabas.admin, topics("a", "b", "c", limit=2, cursor=cursor))
        pages.append([(t.name, p.partition_index) for t in answer.topics for p in t.partitions])
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert pages == [[("a", 0), ("a", 1)], [("b", 0), ("b", 1)], [("b", 2), ("c", 0)]]


async def test_a_topic_that_may_not_be_described_is_not_told_of(barnabas: Cluster) -> None:
    barnabas.create_topic("open")
    barnabas.create_topic("closed")
    alice = barnabas.as_user("alice").allow("describe", "topic", "open").allow("describe", "topic", "missing")
    named = await call(alice, topics("open", "closed", "missing"))
    assert {t.name: t.error_code for t in named.topics} == {
        "open": ErrorCode.NONE,
        "closed": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    everything = await call(alice, topics())
    assert [t.name for t in everything.topics] == ["open"]


async def test_a_cursor_must_stand_among_the_topics(barnabas: Cluster) -> None:
    barnabas.create_topic("a")
    answer = await call(barnabas.admin, topics("a", cursor=("b", 0)))
    assert [t.error_code for t in answer.topics] == [ErrorCode.INVALID_REQUEST]


async def test_a_cluster_is_described_to_anybody(barnabas: Cluster) -> None:
    stranger = barnabas.as_user("stranger")
    answer = await call(stranger, DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.cluster_id == barnabas.node.cluster_id
    assert [f"{b.host}:{b.port}" for b in answer.brokers] == [barnabas.bootstrap]
    assert answer.controller_id == 1
    assert answer.cluster_authorized_operations == 0
    wrong = await call(stranger, DescribeClusterRequest(endpoint_type=2))
    assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    unknown = await call(stranger, DescribeClusterRequest(endpoint_type=7))
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


CLUSTER_REQUESTS = (
    DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    ),
    DescribeClientQuotasRequest(),
    DescribeUserScramCredentialsRequest(users=None),
    DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])]
    ),
)  # fmt: skip


@pytest.mark.parametrize("request_", CLUSTER_REQUESTS, ids=lambda r: r.NAME)
async def test_what_concerns_the_cluster_wants_a_right_on_it(barnabas: Cluster, request_: Any) -> None:
    refused = await call(barnabas.as_user("stranger"), request_)
    codes = {refused.error_code} | {
        p.error_code for t in getattr(refused, "topics", ()) for p in getattr(t, "partitions", ())
    }
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes
    trusted = barnabas.as_user("trusted").allow("describe", "cluster", "kafka-cluster")
    trusted.allow("describe_configs", "cluster", "kafka-cluster")
    assert (await call(trusted, request_)).error_code == ErrorCode.NONE


async def test_users_that_are_not_there_or_named_twice(barnabas: Cluster) -> None:
    asked = DescribeUserScramCredentialsRequest(users=[UserName(name=n) for n in ("admin", "nobody", "bob", "bob")])
    answer = await call(barnabas.admin, asked)
    assert {r.user: r.error_code for r in answer.results} == {
        "admin": ErrorCode.NONE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
    }


async def test_a_quota_filter_that_contradicts_itself_is_refused(barnabas: Cluster) -> None:
    asked = DescribeClientQuotasRequest(components=[ComponentData(entity_type="user", match_type=1, match="x")])
    assert (await call(barnabas.admin, asked)).error_code == ErrorCode.INVALID_REQUEST


async def test_another_log_than_the_metadata_has_no_quorum(barnabas: Cluster) -> None:
    asked = DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name="other", partitions=[RequestPartitionData(partition_index=0)])]
    )
    answer = await call(barnabas.admin, asked)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_configs_are_told_to_those_who_may_see_them(barnabas: Cluster) -> None:
    barnabas.create_topic("open", retention__ms="1000")
    alice = barnabas.as_user("alice").allow("describe_configs", "topic", "open").allow("describe_configs", "topic", "x")
    resources = [(2, "closed"), (2, "open"), (2, "x"), (4, "1")]
    asked = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
            for kind, name in resources
        ]
    )
    answer = await call(alice, asked)
    assert {r.resource_name: r.error_code for r in answer.results} == {
        "closed": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "open": ErrorCode.NONE,
        "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "1": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
    open_ = next(r for r in answer.results if r.resource_name == "open")
    assert [(c.name, c.value, c.config_source) for c in open_.configs] == [("retention.ms", "1000", 1)]


async def test_one_resource_of_an_unknown_type_spoils_the_request(barnabas: Cluster) -> None:
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name="1") for kind in (4, 99)]
    )
    answer = await call(barnabas.admin, asked)
    assert [r.error_code for r in answer.results] == [ErrorCode.INVALID_REQUEST] * 2
