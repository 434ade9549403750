"""The table of a worker's settings: Kafka Connect's keys, types and defaults, and our own for Spark.

Those of Kafka's that mean nothing here are in `accepted_keys`, so that its files can be taken over.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, Final

from barnabas.client.config_keys import CLIENT_KEYS, PROTOCOLS
from barnabas.connect.accepted_keys import ACCEPTED
from barnabas.connect.list_checks import no_empty_item, some_items
from barnabas.core.connect import algorithms
from barnabas.model.config import (
    REQUIRED,
    ConfigKey,
    ConfigTable,
    ConfigType,
    Importance,
    at_least,
    between,
    not_empty,
    one_of,
)

_B, _S, _I, _SHORT, _L, _D, _LIST, _C, _P = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)
_Key = ConfigKey
_HIGH, _LOW = Importance.HIGH, Importance.LOW
_INT_MAX: Final = 2_147_483_647


def _mac(value: str) -> str | None:
    try:
        algorithms.known(value)
    except algorithms.UnknownAlgorithmError:
        return f"this worker can use {', '.join(algorithms.usable())}"
    return None


def _macs(value: list[str]) -> str | None:
    if not value:
        return f"want at least one of {', '.join(algorithms.usable())}"
    return next((f"{name!r} is unknown; {wrong}" for name in value if (wrong := _mac(name))), None)


def _partitions(value: int) -> str | None:
    return None if value == -1 or value > 0 else "want a positive number, or -1 for the brokers' own default"


def _urls(value: list[str]) -> str | None:
    return some_items(value) or _schemes(value)


def _schemes(value: list[str]) -> str | None:
    wrong = [url for url in value if not url.lower().startswith(("http://", "https://"))]
    return f"{wrong[0]!r} is neither http://HOST:PORT nor https://HOST:PORT" if wrong else None


def _header_rules(value: str) -> str | None:
    for rule in filter(None, (r.strip().strip('"') for r in _split_rules(value))):
        action, _, header = rule.partition(" ")
        name, colon, text = header.strip().partition(":")
        if (
            action.lower() not in ("set", "add", "setdate", "adddate")
            or not colon
            or not text.strip()
            or not name.strip()
            or len(name.split()) > 1
        ):
            return f"{rule!r} is not 'set NAME:VALUE', nor with add, setDate or addDate"
    return None


def _split_rules(value: str) -> list[str]:
    """Give the parts between commas, but for those within double quotes."""
    parts, quoted = [""], False
    for c in value:
        if c == '"':
            quoted = not quoted
        if c == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _session_of_its_own(value: str) -> str | None:
    if value.lower().startswith("sc://"):
        return (
            "sc:// is Spark Connect, whose sessions live in a server elsewhere, and a worker's tasks need one in the "
            "worker itself; want local[N], spark://host:port, yarn or k8s://..., perhaps of the same cluster"
        )
    return not_empty(value)


def _client(name: str, importance: Importance = Importance.MEDIUM, **changed: Any) -> ConfigKey:
    """Give a row of the clients' table, with Connect's own default or check where it has one."""
    return replace(CLIENT_KEYS[name], importance=importance, **changed)


_GROUP: Final = (
    _Key("bootstrap.servers", _LIST, REQUIRED, CLIENT_KEYS["bootstrap.servers"].doc, _HIGH, some_items),
    _Key("group.id", _S, REQUIRED, "The name of the Connect cluster; a consumer group must not have the same.", _HIGH),
    _Key("client.id", _S, "", "The name of this worker's connections to the brokers.", _LOW),
    _Key("session.timeout.ms", _I, 10_000, "When a silent worker is taken for dead, ms.", _HIGH),
    _Key("heartbeat.interval.ms", _I, 3_000, "How often a worker says that it lives, ms.", _HIGH),
    _Key("rebalance.timeout.ms", _I, 60_000, "How long workers have to rejoin in a rebalance, ms.", _HIGH),
    _Key("worker.sync.timeout.ms", _I, 3_000, "How long a worker that lags behind reads the config topic, ms."),
    _Key("worker.unsync.backoff.ms", _I, 300_000, "How long it stays away from the group when it still lags, ms."),
    _Key(
        "connect.protocol",
        _S,
        "sessioned",
        "The best way of assigning work that this worker offers: sessioned signs requests between workers (KIP-507), "
        "compatible does not, eager (on the wire: default) stops all work in every rebalance. The group uses the best "
        "one that all its workers offer.",
        _LOW,
        one_of("eager", "compatible", "sessioned", "default", ignore_case=True),
    ),
    _Key(
        "scheduled.rebalance.max.delay.ms",
        _I,
        300_000,
        "How long the work of a worker that left waits for its return before others get it, ms.",
        _LOW,
        between(0, _INT_MAX),
    ),
    _Key(
        "exactly.once.source.support",
        _S,
        "disabled",
        "Whether sources write in transactions, so that each record and its offset are there together or not at all "
        "(KIP-618): disabled, preparing, enabled. All workers of a group need the same. A group that runs is rolled "
        "twice: to preparing, where the leader already writes in transactions, and then to enabled.",
        _HIGH,
        one_of("disabled", "preparing", "enabled", ignore_case=True),
    ),
)
_SECURITY: Final = (
    _Key(
        "inter.worker.key.generation.algorithm",
        _S,
        "HmacSHA256",
        "What the leader makes session keys for, by Java's names.",
        _LOW,
        _mac,
    ),
    _Key(
        "inter.worker.key.size", _I, None, "How long session keys are, bits; if not set, as the algorithm has it.", _LOW
    ),
    _Key(
        "inter.worker.key.ttl.ms",
        _L,
        3_600_000,
        "How long a session key is used, ms; 0 never replaces it.",
        _LOW,
        at_least(0),
    ),
    _Key(
        "inter.worker.signature.algorithm",
        _S,
        "HmacSHA256",
        "What this worker signs requests to others with; to be in inter.worker.verification.algorithms.",
        _LOW,
        _mac,
    ),
    _Key(
        "inter.worker.verification.algorithms",
        _LIST,
        ["HmacSHA256"],
        "What requests of other workers may be signed with.",
        _LOW,
        _macs,
    ),
)
_TOPICS: Final = (
    _Key("config.storage.topic", _S, REQUIRED, "The topic of connectors' configurations.", _HIGH),
    _Key("config.storage.replication.factor", _SHORT, 3, "How many copies it is made with.", _LOW, _partitions),
    _Key("offset.storage.topic", _S, REQUIRED, "The topic of sources' offsets.", _HIGH),
    _Key("offset.storage.partitions", _I, 25, "How many partitions it is made with.", _LOW, _partitions),
    _Key("offset.storage.replication.factor", _SHORT, 3, "How many copies it is made with.", _LOW, _partitions),
    _Key("status.storage.topic", _S, REQUIRED, "The topic of states of connectors and tasks.", _HIGH),
    _Key("status.storage.partitions", _I, 5, "How many partitions it is made with.", _LOW, _partitions),
    _Key("status.storage.replication.factor", _SHORT, 3, "How many copies it is made with.", _LOW, _partitions),
    _Key("topic.creation.enable", _B, True, "Whether sources may have their topics made (topic.creation.*).", _LOW),
    _Key("topic.tracking.enable", _B, True, "Whether the topics that connectors use are kept track of.", _LOW),
    _Key("topic.tracking.allow.reset", _B, True, "Whether users may have that forgotten.", _LOW),
)
_TASKS: Final = (
    _Key("key.converter", _C, REQUIRED, "How keys are turned into bytes and back, unless a connector says.", _HIGH),
    _Key("value.converter", _C, REQUIRED, "How values are turned into bytes and back, unless a connector says.", _HIGH),
    _Key(
        "header.converter",
        _C,
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "How headers are turned into bytes and back, unless a connector says.",
        _LOW,
    ),
    _Key(
        "task.shutdown.graceful.timeout.ms",
        _L,
        5_000,
        "How long tasks have to finish their batch when they are stopped, ms in all.",
        _LOW,
    ),
    _Key(
        "offset.flush.interval.ms",
        _L,
        60_000,
        "How long sources' transactions of transaction.boundary=interval last, unless the connector says, ms.",
        _LOW,
    ),
    _Key(
        "connector.client.config.override.policy",
        _S,
        "All",
        "Which client settings connectors may override: All, None, Principal or Allowlist.",
    ),
    _Key("config.providers", _LIST, [], "Whence connectors may take secrets: file, dir, env.", _LOW, no_empty_item),
)
_REST: Final = (
    _Key("listeners", _LIST, ["http://:8083"], "URLs to serve the REST API at, http or https.", _LOW, _urls),
    _Key("rest.advertised.host.name", _S, None, "The host that other workers reach this one at.", _LOW),
    _Key("rest.advertised.port", _I, None, "The port that they reach it at.", _LOW),
    _Key("rest.advertised.listener", _S, None, "Which listener they reach it at: http or https.", _LOW),
    _Key("admin.listeners", _LIST, None, "URLs for /admin alone; empty serves it nowhere.", _LOW, no_empty_item),
    _Key("access.control.allow.origin", _S, "", "Which web pages of other origins may use the API; * for all.", _LOW),
    _Key("access.control.allow.methods", _S, "", "Which methods they may use.", _LOW),
    _Key(
        "response.http.headers.config",
        _S,
        "",
        "Headers of every answer: 'set NAME:VALUE', or add, setDate, addDate; separated by commas.",
        _LOW,
        _header_rules,
    ),
    _Key(
        "ssl.client.auth",
        _S,
        "none",
        "Whether users of an https listener must show a certificate: none, requested, required.",
        _LOW,
        one_of("required", "requested", "none"),
    ),
    _Key(
        "rest.extension.classes",
        _LIST,
        [],
        "Kafka's BasicAuthSecurityRestExtension stands for barnabas.rest.users.file, which it then needs.",
        _LOW,
        no_empty_item,
    ),
    _Key(
        "barnabas.rest.users.file",
        _S,
        None,
        "A file of users of the REST API, user=password a line: HTTP basic authentication. Everybody, if not set.",
        validator=not_empty,
    ),
)
_MEASUREMENTS: Final = (
    _Key(
        "barnabas.metrics.listener",
        _S,
        None,
        "Where measurements are served over HTTP (/metrics, /jmx), as http://host:port; not served unless set.",
    ),
)
_SPARK: Final = (
    _Key(
        "barnabas.spark.master",
        _S,
        "local[*]",
        "Where tasks run: local[N], spark://HOST:PORT, yarn, k8s://...",
        validator=_session_of_its_own,
    ),
    _Key(
        "barnabas.spark.checkpoint.dir",
        _S,
        None,
        "A folder that Spark's driver and executors reach, for the checkpoints of running queries; a fresh temporary "
        "one if not set. Nothing in it is needed after a restart.",
    ),
)
_CLIENT: Final = (
    _client("security.protocol", default="PLAINTEXT", validator=one_of(*PROTOCOLS, ignore_case=True)),
    _client("sasl.mechanism"),
    _client("sasl.jaas.config"),
    _client("request.timeout.ms", default=40_000),
    _client("metadata.max.age.ms", _LOW),
    _client("retry.backoff.ms", _LOW),
    _client("retry.backoff.max.ms", _LOW),
    _client("send.buffer.bytes"),
    _client("receive.buffer.bytes", default=32_768),
    _client("socket.connection.setup.timeout.ms", _LOW, validator=at_least(0)),
    _client("sasl.oauthbearer.token.endpoint.url"),
    _client("sasl.oauthbearer.client.credentials.client.id"),
    _client("sasl.oauthbearer.client.credentials.client.secret"),
    _client("sasl.oauthbearer.scope"),
    _client("sasl.oauthbearer.header.urlencode", _LOW),
    _client("sasl.oauthbearer.jwt.retriever.class", type=_C),
    _client("sasl.login.refresh.window.factor", _LOW, validator=between(0.5, 1.0)),
    _client("ssl.truststore.location", _HIGH),
    _client("ssl.truststore.password", _HIGH),
    _client("ssl.truststore.type"),
    _client("ssl.truststore.certificates", _HIGH),
    _client("ssl.keystore.location", _HIGH),
    _client("ssl.keystore.password", _HIGH),
    _client("ssl.keystore.type"),
    _client("ssl.keystore.key", _HIGH),
    _client("ssl.keystore.certificate.chain", _HIGH),
    _client("ssl.key.password", _HIGH),
    _client("ssl.protocol"),
    _client("ssl.enabled.protocols", validator=no_empty_item),
    _client("ssl.cipher.suites", _LOW, default=[], validator=no_empty_item),
    _client("ssl.endpoint.identification.algorithm", _LOW),
)

SECTIONS: Final = {
    "The group": _GROUP,
    "Signed requests between workers": _SECURITY,
    "Topics": _TOPICS,
    "Connectors and tasks": _TASKS,
    "REST API": _REST,
    "Measurements": _MEASUREMENTS,
    "Spark": _SPARK,
    "Connections to the brokers": _CLIENT,
}
"""What has an effect, by subject, as the reference shows it."""
WORKER_KEYS: Final = ConfigTable(*chain.from_iterable(SECTIONS.values()), *ACCEPTED)
"""Every key of a worker."""

PREFIXES: Final = (
    "producer.",
    "consumer.",
    "admin.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "listeners.https.",
    "admin.listeners.https.",
    "connector.client.config.override.",
    "metrics.context.",
    "barnabas.spark.conf.",
)
"""What further keys may begin with: settings of something that the worker uses, handed on to it."""
