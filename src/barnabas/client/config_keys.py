"""The table of a client's settings: Kafka's keys, types and defaults."""

from __future__ import annotations

from typing import Final

from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, at_least, between, one_of

_B, _S, _I, _L, _LIST, _P = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
    ConfigType.PASSWORD,
)
_Key = ConfigKey
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

CLIENT_KEYS: Final = ConfigTable(
    _Key("bootstrap.servers", _LIST, [], "host:port of some nodes, separated by commas; the rest is found out."),
    _Key("bootstrap.controllers", _LIST, [], "host:port of some controllers, to be asked in place of brokers."),
    _Key("client.id", _S, "barnabas", "A name that logs and quotas of the nodes know this client by."),
    _Key("client.rack", _S, "", "Where this client stands; sent with fetches."),
    _Key(
        "security.protocol",
        _S,
        "PLAINTEXT",
        f"How to talk to the nodes: {', '.join(PROTOCOLS)}.",
        validator=one_of(*PROTOCOLS, ignore_case=True),
    ),
    _Key("sasl.mechanism", _S, "GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
    _Key("sasl.jaas.config", _P, None, "Java's way to give user name and password to a mechanism."),
    _Key("sasl.username", _S, None, "librdkafka's way to give the user name."),
    _Key("sasl.password", _P, None, "librdkafka's way to give the password."),
    _Key("sasl.oauthbearer.token.endpoint.url", _S, None, "Where tokens come from: an issuer's URL, or file:."),
    _Key("sasl.oauthbearer.client.credentials.client.id", _S, None, "Who asks the issuer; clientId in JAAS."),
    _Key("sasl.oauthbearer.client.credentials.client.secret", _P, None, "The secret of that; clientSecret in JAAS."),
    _Key("sasl.oauthbearer.scope", _S, None, "What to ask the issuer for; scope in JAAS."),
    _Key("sasl.oauthbearer.header.urlencode", _B, False, "Whether the issuer wants id and secret encoded (RFC 6749)."),
    _Key("sasl.oauthbearer.jwt.retriever.class", _S, None, "A Python function that gives tokens, as module:name."),
    _Key(
        "sasl.login.refresh.window.factor",
        ConfigType.DOUBLE,
        0.8,
        "The part of a token's life after which it is renewed.",
    ),
    _Key("ssl.truststore.location", _S, None, "The file of certificate authorities to trust."),
    _Key("ssl.truststore.password", _P, None, "What opens the trust store."),
    _Key("ssl.truststore.type", _S, "JKS", "JKS, PKCS12 or PEM."),
    _Key("ssl.truststore.certificates", _P, None, "The authorities themselves, as PEM."),
    _Key("ssl.keystore.location", _S, None, "The file with this client's key and certificate."),
    _Key("ssl.keystore.password", _P, None, "What opens the key store."),
    _Key("ssl.keystore.type", _S, "JKS", "JKS, PKCS12 or PEM."),
    _Key("ssl.keystore.key", _P, None, "This client's key itself, as PEM (PKCS #8)."),
    _Key("ssl.keystore.certificate.chain", _P, None, "This client's certificates themselves, as PEM."),
    _Key("ssl.key.password", _P, None, "What opens the key inside the key store."),
    _Key("ssl.protocol", _S, "TLSv1.3", "The newest TLS to offer."),
    _Key("ssl.enabled.protocols", _LIST, ["TLSv1.2", "TLSv1.3"], "The TLS versions to offer."),
    _Key("ssl.cipher.suites", _LIST, None, "The cipher suites to offer; all when not set."),
    _Key("ssl.endpoint.identification.algorithm", _S, "https", "https checks the host name; empty does not."),
    _Key("request.timeout.ms", _I, 30_000, "How long to wait for one answer.", validator=at_least(0)),
    _Key("default.api.timeout.ms", _I, 60_000, "How long to try one operation.", validator=at_least(0)),
    _Key("socket.connection.setup.timeout.ms", _L, 10_000, "How long to wait for a connection."),
    _Key("retry.backoff.ms", _L, 100, "How long to wait before the first retry.", validator=at_least(0)),
    _Key("retry.backoff.max.ms", _L, 1_000, "How long to wait between retries at most.", validator=at_least(0)),
    _Key("metadata.max.age.ms", _L, 300_000, "When to ask for metadata again.", validator=at_least(0)),
    _Key("send.buffer.bytes", _I, 131_072, "SO_SNDBUF; -1 leaves it to the system.", validator=at_least(-1)),
    _Key("receive.buffer.bytes", _I, 65_536, "SO_RCVBUF; -1 leaves it to the system.", validator=at_least(-1)),
    # Producer.
    _Key("acks", _S, "all", "0, 1 or all: who has a record before it counts.", validator=one_of("0", "1", "-1", "all")),
    _Key("enable.idempotence", _B, True, "Whether a retried batch is recognised."),
    _Key(
        "compression.type",
        _S,
        "none",
        "none, gzip, snappy, lz4 or zstd.",
        validator=one_of("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    _Key("batch.size", _I, 16_384, "How many bytes a batch gathers at most.", validator=at_least(0)),
    _Key("linger.ms", _L, 5, "How long a batch waits for more records.", validator=at_least(0)),
    _Key("buffer.memory", _L, 33_554_432, "How many bytes may wait to be sent.", validator=at_least(0)),
    _Key("max.request.size", _I, 1_048_576, "How large a request may be.", validator=at_least(0)),
    _Key("max.block.ms", _L, 60_000, "How long a send may wait for room or metadata.", validator=at_least(0)),
    _Key("delivery.timeout.ms", _I, 120_000, "How long a record may take in all.", validator=at_least(0)),
    _Key("retries", _I, 2_147_483_647, "How often a batch is tried again.", validator=at_least(0)),
    _Key(
        "max.in.flight.requests.per.connection",
        _I,
        5,
        "How many requests a node may owe an answer to.",
        validator=at_least(1),
    ),
    # Consumer.
    _Key("group.id", _S, None, "The group whose offsets are used."),
    _Key("group.instance.id", _S, None, "A name that makes a member static (KIP-345)."),
    _Key("auto.offset.reset", _S, "latest", "Where to start without an offset: earliest, latest or none."),
    _Key("enable.auto.commit", _B, True, "Whether offsets are committed on the way."),
    _Key("auto.commit.interval.ms", _I, 5_000, "How often they are.", validator=at_least(0)),
    _Key("isolation.level", _S, "read_uncommitted", "read_uncommitted or read_committed."),
    _Key("fetch.min.bytes", _I, 1, "How much a fetch waits for.", validator=at_least(0)),
    _Key("fetch.max.bytes", _I, 52_428_800, "How much a fetch gives at most.", validator=at_least(0)),
    _Key("fetch.max.wait.ms", _I, 500, "How long a fetch waits.", validator=at_least(0)),
    _Key("max.partition.fetch.bytes", _I, 1_048_576, "How much of a partition at most.", validator=at_least(0)),
    _Key("session.timeout.ms", _I, 45_000, "When a silent member is out.", validator=at_least(1)),
    _Key("heartbeat.interval.ms", _I, 3_000, "How often a member says it lives.", validator=at_least(1)),
    _Key("max.poll.interval.ms", _I, 300_000, "How long a rebalance may take.", validator=at_least(1)),
    _Key("max.poll.records", _I, 500, "How many records a poll gives.", validator=between(1, 2_147_483_647)),
    _Key(
        "partition.assignment.strategy",
        _LIST,
        ["range"],
        "How a group shares partitions out: range, roundrobin (Java's class names are understood).",
    ),
)
"""Every key that a client here acts on."""
