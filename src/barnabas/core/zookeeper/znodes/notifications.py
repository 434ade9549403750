"""How brokers hear of changes that they have no watch on: sequential znodes, which their maker leaves for a while.

Kafka deletes them after 15 minutes; whoever starts reads what they speak of anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.core.zookeeper.znodes.configs import CONFIG
from barnabas.core.zookeeper.znodes.tokens import CHANGES as TOKEN_CHANGES
from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, json_of
from barnabas.model.topic_partition import TopicPartition

CONFIG_CHANGES: Final = f"{CONFIG}/changes"
CONFIG_CHANGE: Final = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
TOKEN_CHANGE: Final = f"{TOKEN_CHANGES}/token_change_"
ACL_CHANGE: Final = "acl_changes_"
_ROOTS: Final = ("topics", "brokers", "clients", "users", "ips")
_LOG_DIR_FAILURE: Final = 1


def config_change(entity_path: str) -> bytes:
    """Say that configs have changed; entity_path: below `/config`, `topics/orders`."""
    return json_of({"version": 2, "entity_path": entity_path})


def changed_configs(znode: Znode) -> str:
    """Give the path below `/config` of what has changed; versions 1 and 2 of the format."""
    fields = Fields(znode)
    if fields.version(2) == 1:
        kind, name = fields.text("entity_type"), fields.text("entity_name")
    else:
        kind, _, name = fields.text("entity_path").partition("/")
    if kind not in _ROOTS or not name:
        raise ZnodeError(znode.path, f"names {kind!r}, which has no configs")
    return f"{kind}/{name}"


def isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """Say that leaders have changed the ISRs of partitions."""
    return json_of({"version": 1, "partitions": [{"topic": p.topic, "partition": p.partition} for p in partitions]})


def changed_isrs(znode: Znode) -> list[TopicPartition]:
    """Give the partitions whose state is to be read anew."""
    found = []
    for item in Fields(znode).objects("partitions"):
        topic, partition = item.get("topic"), item.get("partition")
        if not isinstance(topic, str) or type(partition) is not int:
            raise ZnodeError(znode.path, "names what is not a partition")
        found.append(TopicPartition(topic, partition))
    return found


def log_dir_failed(broker_id: int) -> bytes:
    """Say that a log directory of a broker has failed."""
    return json_of({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE})


def failed_broker(znode: Znode) -> int:
    """Give the broker of which a log directory has failed."""
    return Fields(znode).whole("broker")
