"""What clients see of AclAuthorizer is the same on brokers of Apache Kafka 3.9.1 and on ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.model.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.peers.eventually import eventually
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer

MAKES: Final = {"theirs": False, "ours": True}
_FORBIDDEN: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_USERS: Final = f'user_{ADMIN}="{ADMIN_PASSWORD}" user_bob="bobs"'
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_LOGIN: Final = f'{_MODULE} username="{ADMIN}" password="{ADMIN_PASSWORD}" {_USERS};'
PROPERTIES: Final = {
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _LOGIN,
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module", params=MAKES)
def broker(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    """Give a broker with a second user, under whom nothing is asked but what rules let through."""
    connect = f"{zookeeper.connect}/rules-{request.param}"
    folder = tmp_path_factory.mktemp("rules")
    with ZooKeeperBroker(folder, connect, ours=MAKES[request.param], properties=PROPERTIES) as found:
        yield found


IDEMPOTENT_WRITE: Final = AclBinding(
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
    "User:alice",
    "*",
    AclOperation.IDEMPOTENT_WRITE,
    AclPermissionType.ALLOW,
)
"""Without a rule on the cluster everybody would have that."""


def a_rule(
    name: str,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, pattern_type)
    return AclBinding(pattern, principal, "*", AclOperation.WRITE, permission)


@pytest.mark.requirement("A-33")
def test_what_cannot_be_a_rule_in_zookeeper_is_refused(broker: ZooKeeperBroker) -> None:
    wanted = [a_rule("a/b"), a_rule("a/", PatternType.PREFIXED), a_rule("c"), a_rule("")]

    async def made() -> list[int]:
        async with Admin(broker.client_config()) as admin:
            results = await admin.create_acls(wanted)
            assert await admin.describe_acls(AclBindingFilter()) == [a_rule("c")]
            await admin.delete_acls([AclBindingFilter()])
            return [0 if one is None else one.code for one in results]

    bad = ErrorCode.INVALID_REQUEST
    assert asyncio.run(made()) == [bad, bad, 0, bad]


@pytest.mark.requirement("A-33")
def test_with_allow_everyone_only_a_refusal_of_all_topics_keeps_producers_from_an_id(broker: ZooKeeperBroker) -> None:
    deny = AclPermissionType.DENY
    rules = {
        a_rule("*"): True,  # somebody else's alone: whoever wants to write is refused later, topic by topic
        a_rule("*", principal="User:bob", permission=deny): False,
        a_rule("some", principal="User:bob", permission=deny): True,
    }

    async def asked() -> dict[AclBinding, bool]:
        found = {}
        async with Admin(broker.client_config()) as admin:
            for rule in rules:
                assert await admin.create_acls([IDEMPOTENT_WRITE, rule]) == [None, None]
                await eventually(lambda: known(admin), {IDEMPOTENT_WRITE, rule})
                found[rule] = await bob_gets_an_id(broker)
                await admin.delete_acls([AclBindingFilter()])
        return found

    assert asyncio.run(asked()) == rules


async def known(admin: Admin) -> set[AclBinding]:
    return set(await admin.describe_acls(AclBindingFilter()))


async def bob_gets_an_id(broker: ZooKeeperBroker) -> bool:
    login = f'{_MODULE} username="bob" password="bobs";'
    bob = ClientConfig.from_properties({**broker.client_properties(), "sasl.jaas.config": login})
    async with Admin(bob) as admin:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        answer: InitProducerIdResponse = await admin.cluster.call_any(request)
    # Before its first block of ids has come a broker says that it loads, to whom it would give one.
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _FORBIDDEN)
    return answer.error_code != _FORBIDDEN
