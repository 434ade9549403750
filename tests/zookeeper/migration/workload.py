"""Using all that leaves znodes behind, so that a tree holds every kind there is."""

from __future__ import annotations

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.config import Password
from tests.peers.kafka_zookeeper import ZooKeeperBroker

ORDERS = "orders"


async def use_everything(broker: ZooKeeperBroker) -> None:
    """Have the broker make topics, settings, quotas, users, rules and a token."""
    async with Admin(broker.client_config()) as admin:
        made = await admin.create_topics([NewTopic(ORDERS, 2, 1, configs={"retention.ms": "1000000"})])
        assert made == {ORDERS: None}, made
        await _configure(admin, broker.broker_id)
        await admin.alter_quotas({"user": "alice"}, {"producer_byte_rate": 1e6})
        await admin.alter_quotas({"user": "alice", "client-id": "c"}, {"producer_byte_rate": 1e6})
        await admin.alter_quotas({"client-id": "c"}, {"producer_byte_rate": 1e6})
        await admin.alter_quotas({"ip": "127.0.0.9"}, {"connection_creation_rate": 100.0})
        scram = await admin.alter_scram([ScramUpsertion("bob", "SCRAM-SHA-256", Password("bob-secret"))])
        assert scram == {"bob": None}
        assert not any(await admin.create_acls([_rule(PatternType.LITERAL), _rule(PatternType.PREFIXED)]))
        await admin.create_token()


async def _configure(admin: Admin, broker_id: int) -> None:
    change = [ConfigChange("log.retention.ms", AlterConfigOp.SET, "5000000")]
    kind = ConfigResourceType.BROKER
    for name in ("", str(broker_id)):
        done = await admin.incremental_alter_configs({ConfigResource(kind, name): change})
        assert not any(done.values()), done


def _rule(pattern: PatternType) -> AclBinding:
    what = ResourcePattern(ResourceType.TOPIC, ORDERS, pattern)
    return AclBinding(what, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
