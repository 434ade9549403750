"""Configurations of topics, brokers, the cluster's default, loggers and groups."""

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.model.acl import AclOperation, ResourceType

from .requests import request
from .script import side_by_side
from .side import NOBODY, Side

pytestmark = pytest.mark.peer
TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def _described(*resources: tuple[int, str, list[str] | None], **fields: Any) -> Any:
    listed = [{"resource_type": t, "resource_name": n, "configuration_keys": k} for t, n, k in resources]
    return request("DescribeConfigs", resources=listed, **fields)


def _incremental(kind: int, name: str, *changes: tuple[int, str, str | None], **fields: Any) -> Any:
    configs = [{"config_operation": op, "name": key, "value": value} for op, key, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return request("IncrementalAlterConfigs", resources=[resource], **fields)


def _replacing(kind: int, name: str, **configs: str | None) -> Any:
    listed = [{"name": key.replace("__", "."), "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": listed}
    return request("AlterConfigs", resources=[resource])


@side_by_side
def test_describe_configs(s: Side) -> None:
    s.topic("configured", retention__ms="1000", cleanup__policy="compact,delete", max__message__bytes="5000")
    all_of_it = {"include_synonyms": True, "include_documentation": True}
    for resource in ((TOPIC, "configured"), (BROKER, "1"), (BROKER, "")):
        s.every_version(_described((*resource, None)), note=f"{resource}")
        s.every_version(_described((*resource, None), **all_of_it), users=("admin",), note=f"{resource} all")
        s.every_version(_described((*resource, []), include_synonyms=True), note=f"{resource} no keys")
        keys = ["retention.ms", "log.retention.ms", "no.such.key", "retention.ms"]
        s.every_version(_described((*resource, keys)), note=f"{resource} keys")
    for resource in (
        (TOPIC, "configured-none"), (TOPIC, ""), (TOPIC, "bad name!"), (BROKER, "2"), (BROKER, "x"),
        (LOGGER, ""), (LOGGER, "2"), (LOGGER, "x"), (CLIENT_METRICS, "m"), (CLIENT_METRICS, ""), (GROUP, "g"),
        (GROUP, ""), (0, "x"), (1, "x"),
        (3, "x"), (99, "x"), (64, "x"),
    ):  # fmt: skip
        s.every_version(_described((*resource, None)), note=f"{resource}")
    two = ((TOPIC, "configured", ["retention.ms"]), (BROKER, "1", ["num.io.threads", "log.retention.ms"]))
    s.every_version(_described(*two, (TOPIC, "configured-none", None)))
    s.every_version(_described(two[0], two[0]))
    s.every_version(_described())
    s.every_version(_described((LOGGER, "1", None)), users=(NOBODY,))
    s.allow("alice", AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "configured")
    s.every_version(_described(*two), users=("alice",))


@side_by_side
def test_alter_configs(s: Side) -> None:
    """Left out: a resource named twice, which Kafka never answers."""
    s.topic("altered")
    for change in (
        _replacing(TOPIC, "altered", retention__ms="5000", cleanup__policy="compact"),
        _replacing(TOPIC, "altered", retention__ms="x"),
        _replacing(TOPIC, "altered", retention__ms=None),
        _replacing(TOPIC, "altered", no__such__key="x"),
        _replacing(TOPIC, "altered-none", retention__ms="5000"),
        _replacing(TOPIC, "", retention__ms="5000"),
        _replacing(TOPIC, "altered", min__insync__replicas="9"),
        _replacing(TOPIC, "altered"),
        _replacing(BROKER, "1", log__cleaner__threads="2"),
        _replacing(BROKER, "1", node__id="2"),
        _replacing(BROKER, "1"),
        _replacing(BROKER, "2", log__cleaner__threads="2"),
        _replacing(BROKER, "x", log__cleaner__threads="2"),
        _replacing(BROKER, "", log__cleaner__threads="2"),
        _replacing(BROKER, ""),
        _replacing(LOGGER, "1", kafka__x="INFO"),
        _replacing(0, "1"),
        _replacing(99, "1", a="b"),
    ):
        s.every_version(change, note=f"{change.resources}")
        s.settle()
        s.call(_described((TOPIC, "altered", None)))
    s.every_version(request("AlterConfigs", resources=[]))


INCREMENTAL: Final[list[tuple[Any, ...]]] = [
    (TOPIC, "stepped", (SET, "retention.ms", "5000")),
    (TOPIC, "stepped", (SET, "retention.ms", "x")),
    (TOPIC, "stepped", (SET, "retention.ms", None)),
    (TOPIC, "stepped", (SET, "retention.ms", "")),
    (TOPIC, "stepped", (SET, "no.such.key", "1")),
    (TOPIC, "stepped", (DELETE, "no.such.key", None)),
    (TOPIC, "stepped", (DELETE, "retention.ms", "ignored")),
    (TOPIC, "stepped", (APPEND, "cleanup.policy", "compact")),
    (TOPIC, "stepped", (APPEND, "cleanup.policy", "compact")),
    (TOPIC, "stepped", (SUBTRACT, "cleanup.policy", "delete")),
    (TOPIC, "stepped", (SUBTRACT, "cleanup.policy", "delete")),
    (TOPIC, "stepped", (SUBTRACT, "cleanup.policy", "compact")),
    (TOPIC, "stepped", (APPEND, "cleanup.policy", "shred")),
    (TOPIC, "stepped", (APPEND, "retention.ms", "5")),
    (TOPIC, "stepped", (SUBTRACT, "retention.ms", "5")),
    (TOPIC, "stepped", (APPEND, "cleanup.policy", None)),
    (TOPIC, "stepped", (SUBTRACT, "cleanup.policy", None)),
    (TOPIC, "stepped", (4, "retention.ms", "5")),
    (TOPIC, "stepped", (-1, "retention.ms", "5")),
    (TOPIC, "stepped", (SET, "retention.ms", "5"), (SET, "retention.ms", "6")),
    (TOPIC, "stepped", (SET, "retention.ms", "5"), (DELETE, "retention.ms", None)),
    (TOPIC, "stepped", (SET, "segment.ms", "5000"), (SET, "min.insync.replicas", "0")),
    (TOPIC, "stepped", (SET, "min.insync.replicas", "2")),
    (TOPIC, "stepped", (SET, "remote.storage.enable", "true")),
    (TOPIC, "stepped", (SET, "leader.replication.throttled.replicas", "*")),
    (TOPIC, "stepped", (APPEND, "leader.replication.throttled.replicas", "0:1")),
    (TOPIC, "stepped", (SET, "flush.messages", " 5 ")),
    (TOPIC, "stepped", (SET, "preallocate", "True")),
    (TOPIC, "stepped"),
    (TOPIC, "stepped-none", (SET, "retention.ms", "5")),
    (TOPIC, "", (SET, "retention.ms", "5")),
    (TOPIC, "bad name!", (SET, "retention.ms", "5")),
    (BROKER, "1", (SET, "log.cleaner.threads", "2")),
    (BROKER, "1", (SET, "log.cleaner.threads", "0")),
    (BROKER, "1", (SET, "log.cleaner.threads", "9")),
    (BROKER, "1", (DELETE, "log.cleaner.threads", None)),
    (BROKER, "1", (SET, "node.id", "2")),
    (BROKER, "1", (SET, "auto.create.topics.enable", "false")),
    (BROKER, "1", (SET, "no.such.key", "2")),
    (BROKER, "1", (SET, "log.retention.ms", "x")),
    (BROKER, "1", (SET, "max.connections", "500")),
    (BROKER, "1", (DELETE, "max.connections", None)),
    (BROKER, "1", (SET, "listener.name.sasl_plaintext.max.connections", "500")),
    (BROKER, "1", (DELETE, "listener.name.sasl_plaintext.max.connections", None)),
    (BROKER, "1", (SET, "leader.replication.throttled.rate", "1000")),
    (BROKER, "1", (DELETE, "leader.replication.throttled.rate", None)),
    (BROKER, "1", (SET, "num.io.threads", "100")),
    (BROKER, "1", (SET, "num.io.threads", "5")),
    (BROKER, "1", (DELETE, "num.io.threads", None)),
    (BROKER, "2", (SET, "log.cleaner.threads", "2")),
    (BROKER, "x", (SET, "log.cleaner.threads", "2")),
    (BROKER, "-1", (SET, "log.cleaner.threads", "2")),
    (BROKER, "", (SET, "log.cleaner.threads", "2")),
    (BROKER, "", (SET, "log.retention.ms", "70000000")),
    (BROKER, "", (SET, "min.insync.replicas", "0")),
    (BROKER, "", (SET, "ssl.keystore.location", "/x")),
    (BROKER, "", (SET, "listener.name.sasl_plaintext.max.connections", "5")),
    (BROKER, "", (DELETE, "log.cleaner.threads", None), (DELETE, "log.retention.ms", None)),
    (LOGGER, "1", (SET, "no.such.logger", "DEBUG")),
    (LOGGER, "1", (SET, "root", "LOUD")),
    (LOGGER, "1", (DELETE, "root", None)),
    (LOGGER, "1", (APPEND, "root", "DEBUG")),
    (LOGGER, "2", (SET, "root", "DEBUG")),
    (LOGGER, "", (SET, "root", "DEBUG")),
    (LOGGER, "x", (SET, "root", "DEBUG")),
    (0, "x", (SET, "a", "b")),
    (99, "x", (SET, "a", "b")),
    (GROUP, "g", (SET, "no.such.key", "1")),
    (GROUP, "g", (SET, "consumer.session.timeout.ms", "50000")),
    (GROUP, "g", (SET, "consumer.session.timeout.ms", "44999")),
    (GROUP, "g", (SET, "consumer.heartbeat.interval.ms", "15001")),
    (GROUP, "g", (SET, "consumer.assignment.interval.ms", "15001")),
    (GROUP, "g", (SET, "consumer.assignment.interval.ms", "-1")),
    (GROUP, "g", (SET, "share.isolation.level", "loud")),
    (GROUP, "g", (SET, "streams.num.standby.replicas", "3")),
    (GROUP, "g", (APPEND, "consumer.session.timeout.ms", "1")),
    (GROUP, "g", (DELETE, "consumer.session.timeout.ms", None)),
    (GROUP, "", (SET, "consumer.session.timeout.ms", "45000")),
    (CLIENT_METRICS, "", (SET, "interval.ms", "1000")),
    (CLIENT_METRICS, "m", (SET, "no.such.key", "1000")),
    (CLIENT_METRICS, "m", (SET, "interval.ms", "99")),
    (CLIENT_METRICS, "m", (SET, "interval.ms", "often")),
    (CLIENT_METRICS, "m", (SET, "match", "client_id")),
    (CLIENT_METRICS, "m", (SET, "match", "color=red")),
    (CLIENT_METRICS, "m", (SET, "match", "client_id=(")),
    (CLIENT_METRICS, "m", (SET, "metrics", "a,a")),
    (CLIENT_METRICS, "m", (SET, "metrics", "a,,a")),
    (CLIENT_METRICS, "m", (APPEND, "metrics", "a.")),
    (CLIENT_METRICS, "m", (SET, "metrics", "a.,b."), (SET, "interval.ms", "1000"), (SET, "match", "client_id=b.*")),
    (CLIENT_METRICS, "m", (DELETE, "metrics", None), (DELETE, "interval.ms", None)),
]  # fmt: skip


@side_by_side
def test_incremental_alter_configs(s: Side) -> None:
    s.topic("stepped")
    s.topic("stepped-too")
    for kind, name, *changed in INCREMENTAL:
        s.call(_incremental(kind, name, *changed), 0, NOBODY, note=f"{kind} {name} {changed}")
        s.call(_incremental(kind, name, *changed, validate_only=True), note=f"{kind} {name} {changed} only")
        s.every_version(_incremental(kind, name, *changed), users=("admin",), note=f"{kind} {name} {changed}")
        s.settle()
    s.call(_described((TOPIC, "stepped", None), include_synonyms=True))
    s.call(_described((BROKER, "1", None), include_synonyms=True))
    s.call(_described((BROKER, "", None), include_synonyms=True))
    s.call(_described((GROUP, "g", None), include_synonyms=True))
    s.call(_described((CLIENT_METRICS, "m", None), include_synonyms=True))
    several = _incremental(TOPIC, "stepped", (SET, "retention.ms", "5000"))
    several.resources += _incremental(TOPIC, "stepped-too", (SET, "retention.ms", "x")).resources
    several.resources += _incremental(BROKER, "", (SET, "log.retention.ms", "5000000")).resources
    several.resources += _incremental(BROKER, "1", (SET, "node.id", "7")).resources
    s.allow("alice", AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "stepped")
    s.call(several, user="alice")
    s.call(several)
    double = _incremental(TOPIC, "stepped", (SET, "retention.ms", "5000"))
    double.resources *= 2
    s.every_version(double, note="twice")
    s.every_version(request("IncrementalAlterConfigs", resources=[]))
    s.ask(_incremental(BROKER, "", (DELETE, "log.retention.ms", None)))
    s.settle()
