"""How many rules one DeleteAcls may remove: the same here and in Apache Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from barnabas.server.config import NodeConfig
from barnabas.server.dev_node import prepare_plain
from barnabas.server.node import Node
from barnabas.wire.errors import ApiError
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
MOST: Final = 10_000
ONE: Final = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "most-deletions"), "User:one", "*", AclOperation.READ, AclPermissionType.ALLOW
)
MANY: Final = [replace(ONE, principal="User:many", host=f"10.0.{n // 250}.{n % 250}") for n in range(MOST)]
ALL: Final = AclBindingFilter(ResourceType.TOPIC, ONE.pattern.name)
OF_MANY: Final = replace(ALL, principal="User:many")


@pytest.fixture(params=["ours", "theirs"])
async def admin(request: pytest.FixtureRequest, tmp_path: Path, real_kafka: RealKafka) -> AsyncIterator[Admin]:
    """Give an admin client of a cluster that keeps rules, and none of this test's in the end."""
    if request.param == "theirs":
        async with Admin(ClientConfig.from_properties(real_kafka.client_properties())) as theirs:
            yield theirs
            await theirs.delete_acls([OF_MANY])
            await theirs.delete_acls([ALL])
        return
    config = prepare_plain(tmp_path, "PLAINTEXT://127.0.0.1:0")
    node = Node(NodeConfig.parse({**config.originals, **SETTINGS}))
    await node.start()
    try:
        async with Admin(ClientConfig.from_properties({"bootstrap.servers": node.bootstrap()})) as ours:
            yield ours
    finally:
        await node.stop()


async def removed(admin: Admin, filters: Sequence[AclBindingFilter]) -> int | str:
    """Give how many rules went, or the code of the refusal."""
    try:
        return len(await admin.delete_acls(filters))
    except ApiError as refused:
        return refused.code.name


@pytest.mark.requirement("H-20")
async def test_ten_thousand_rules_go_and_not_one_more(admin: Admin) -> None:
    for start in range(0, MOST, 2_500):
        assert await admin.create_acls(MANY[start : start + 2_500]) == [None] * 2_500
    assert await admin.create_acls([ONE]) == [None]
    assert await removed(admin, [ALL]) == "INVALID_REQUEST"
    assert await removed(admin, [OF_MANY, ONE.as_filter]) == "INVALID_REQUEST"
    assert await removed(admin, [OF_MANY, MANY[0].as_filter]) == "INVALID_REQUEST"
    assert await removed(admin, [ONE.as_filter, ALL]) == "INVALID_REQUEST"
    assert await removed(admin, [OF_MANY]) == MOST
    assert await removed(admin, [ALL, ALL]) == 2
