"""The rows of the comparison: what is measured, and how it should stand to Apache Kafka in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
    """One line. goal: the wanted ratio Barnabas to Kafka; at least that, or at most where less is better.

    title: names what was counted in braces, see `verdicts`. limit: a wanted absolute value of ours besides, 0 for none.
    """

    key: str
    title: str
    unit: str
    goal: float
    less_is_better: bool = False
    limit: float = 0.0


def _secured(rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(
        Row(f"{r.key}-secured", f"{r.title}, SASL_SSL + SCRAM + ACLs", r.unit, 1.0, r.less_is_better) for r in rows
    )


LOADS: Final = (
    Row("produce-1k", "produce 1 KB, librdkafka, acks=all", "MB/s", 1.5),
    Row("produce-100", "produce 100 B, librdkafka, acks=all", "records/s", 1.3),
    Row("fetch-1k", "fetch 1 KB, librdkafka", "MB/s", 6.0),
    Row("requests-1", "one-record requests, 1 connection", "req/s", 1.5),
    Row("requests-16", "one-record requests, 16 connections", "req/s", 2.2),
    Row("requests-16-p99", "one-record requests, 16 connections, p99", "ms", 1.0, less_is_better=True, limit=1.0),
    Row("requests-256", "one-record requests, 256 connections", "req/s", 2.2),
    Row("requests-256-p99", "one-record requests, 256 connections, p99", "ms", 1.0, less_is_better=True),
)
SESSIONS: Final = tuple(
    Row(
        f"{r.key}-sessions",
        f"{r.title}, SASL_SSL + SCRAM + {{sessions_rules:,}} ACLs, sessions of {{session_s}} s",
        r.unit,
        1.0,
    )
    for r in LOADS
    if not r.key.startswith("requests-")
)
LOGIN_WAYS: Final = {
    "plain": "PLAIN",
    "scram-256": "SCRAM-SHA-256",
    "scram-512": "SCRAM-SHA-512",
    "oauth": "OAUTHBEARER, RS256",
    "tls": "mutual TLS",
    "scram-512-tls": "SCRAM-SHA-512 over TLS",
}
LOGINS: Final = (
    *(Row(f"login-{k}", f"connections that log in, {way}", "/s", 1.0) for k, way in LOGIN_WAYS.items()),
    *(
        Row(f"renew-{k}", f"sessions renewed on open connections, {way}", "/s", 1.0)
        for k, way in LOGIN_WAYS.items()
        if k != "tls"
    ),
)
ACLS: Final = (
    Row("start-acls", "start to first authorized answer, {rules:,} ACLs", "s", 1.0, less_is_better=True),
    Row("rss-acls", "resident memory after that start", "MB", 1.0, less_is_better=True),
)
CLUSTER: Final = (
    Row("cluster-produce-1k", "3 brokers: produce 1 KB, 3 copies, acks=all", "MB/s", 1.0),
    Row("cluster-fetch-1k", "3 brokers: fetch 1 KB", "MB/s", 1.0),
    Row("cluster-latency", "3 brokers: Kafka's EndToEndLatency, acks=all, mean", "ms", 1.0, less_is_better=True),
    Row("cluster-latency-p99", "3 brokers: Kafka's EndToEndLatency, acks=all, p99", "ms", 1.0, less_is_better=True),
    Row("failover-controller", "active controller killed: next change of a client", "s", 1 / 3, less_is_better=True),
    Row("failover-leader", "partition leader killed: next record of a client", "s", 1 / 3, less_is_better=True),
    Row("create-topics", "create {topics:,} topics, 3 copies", "s", 1.0, less_is_better=True),
    Row("elect-many", "leaders for {dead_partitions:,} partitions of a killed broker", "s", 1.0, less_is_better=True),
    Row("start-many", "start 6 nodes with {partitions:,} partitions", "s", 1.0, less_is_better=True),
    Row("cluster-rss-controller", "resident memory of a controller", "MB", 1.0, less_is_better=True),
    Row("cluster-rss-broker", "resident memory of a broker after the loads", "MB", 1.0, less_is_better=True),
    Row(
        "cluster-rss-many",
        "resident memory of each of 3 brokers with {partitions:,} partitions",
        "MB",
        1.0,
        less_is_better=True,
    ),
)
_KILLED: Final = "Connect: the task of a killed worker, scheduled.rebalance.max.delay.ms=0,"
CONNECT: Final = (
    Row("connect-sink-1", "Connect: topic to file, 100 B, FileStreamSink, 1 task", "records/s", 1.0),
    Row("connect-sink-4", "Connect: topic to file, 100 B, FileStreamSink, 4 tasks", "records/s", 1.01),
    Row("connect-source-1", "Connect: file to topic, 100 B, FileStreamSource", "records/s", 1.0),
    Row(
        "connect-parquet",
        "Connect: topic to Parquet, 100 B, SparkSink; for Kafka Spark's own `kafka` source",
        "records/s",
        1.0,
    ),
    Row("connect-start", "Connect: from POST to a RUNNING task", "s", 1.0, less_is_better=True),
    Row("connect-move-running", f"{_KILLED} until it is RUNNING on the other", "s", 1.0, less_is_better=True),
    Row("connect-move-record", f"{_KILLED} until its next record comes out", "s", 1.0, less_is_better=True),
    Row("connect-rss-1", "Connect: resident memory of a worker, 1 task", "MB", 1.0, less_is_better=True),
    Row("connect-rss-20", "Connect: resident memory of a worker, 20 tasks", "MB", 1.0, less_is_better=True),
    Row("connect-rss-further", "Connect: memory for each further task", "MB", 1.0, less_is_better=True, limit=100.0),
)
ZOOKEEPER: Final = (
    *(
        Row(
            f"zookeeper-{mode}",
            f"ZooKeeper: {{znodes:,}} znodes {mode}d by zookeeper-security-migration",
            "s",
            0.2,
            less_is_better=True,
        )
        for mode in ("secure", "unsecure")
    ),
    Row(
        "zookeeper-start",
        "ZooKeeper: a broker starts, until {zk_partitions:,} partitions have it in sync",
        "s",
        1.0,
        less_is_better=True,
    ),
    Row(
        "zookeeper-failover",
        "ZooKeeper: the controller's session has ended, until {zk_partitions:,} partitions have other leaders",
        "s",
        1.0,
        less_is_better=True,
    ),
    Row("zookeeper-rss", "ZooKeeper: resident memory of a broker after that", "MB", 1.0, less_is_better=True),
)
RULES: Final = {"1k": "1,000", "10k": "10,000", "100k": "100,000", "200k": "200,000"}
AUTHORIZATION: Final = (
    *(
        Row(f"authorize-{k}", f"one authorization, {n} ACLs", "µs", 6 / 5.7, less_is_better=True, limit=6.0)
        for k, n in RULES.items()
    ),
    *(
        Row(f"any-topic-{k}", f'the "any topic" check, {n} ACLs', "µs", 1.0, less_is_better=True, limit=10.0)
        for k, n in RULES.items()
    ),
    *(Row(f"acl-load-{k}", f"take up {n} ACLs at once", "ms", 1.0, less_is_better=True) for k, n in RULES.items()),
    *(
        Row(f"acl-memory-{k}", f"memory for each of {n} ACLs", "bytes", 1.5, less_is_better=True)
        for k, n in RULES.items()
    ),
)
TRANSACTIONS: Final = (
    Row("idempotent-1k", "produce 1 KB, idempotent, librdkafka", "MB/s", 1.0),
    Row(
        "idempotent-cost",
        "time of idempotent produce, in times of plain produce",
        "times",
        1.0,
        less_is_better=True,
        limit=1.05,
    ),
    Row("transactions-1", "transactions of 10 records, librdkafka, 1 producer", "/s", 1.0),
    Row("transactions-50", "transactions of 10 records, librdkafka, 50 producers", "/s", 1.0),
    Row(
        "fetch-committed-1k",
        "fetch 1 KB, librdkafka, read_committed, one of ten transactions aborted",
        "MB/s",
        1.0,
    ),
)
SINK: Final = (
    Row(
        "spark-sink",
        "Spark: micro-batches of {sink_records:,} records of 100 B into a topic, at least once; for Kafka Spark's own "
        "`kafka` sink",
        "records/s",
        1.0,
    ),
    Row("spark-sink-once", "Spark: the same, exactly once, our sink to both", "records/s", 1.0),
    Row(
        "spark-sink-cost",
        "Spark: time of that, in times of our sink at least once",
        "times",
        1.0,
        less_is_better=True,
        limit=1.1,
    ),
    Row(
        "spark-batch",
        "Spark: a micro-batch of {sink_small:,} records, at least once; for Kafka Spark's own `kafka` sink",
        "ms",
        1.0,
        less_is_better=True,
    ),
    Row("spark-batch-once", "Spark: the same, exactly once, our sink to both", "ms", 1.0, less_is_better=True),
    Row(
        "spark-batch-cost",
        "Spark: time of that, in times of our sink at least once",
        "times",
        1.0,
        less_is_better=True,
        limit=1.5,
    ),
)
GROUPS: Final = (
    *(
        Row(
            f"join-{protocol}",
            f"{{members}} members join a group at once, {protocol} protocol, until all hold their shares",
            "s",
            1.0,
            less_is_better=True,
        )
        for protocol in ("classic", "consumer")
    ),
    Row("offset-commits-1", "offset commits, 1 connection", "/s", 1.0),
    Row("offset-commits-16", "offset commits, 16 connections", "/s", 1.0),
    Row("groups-rss", "resident memory with {groups:,} groups of one member", "MB", 1.0, less_is_better=True),
    Row("groups-rss-added", "resident memory that {groups:,} groups add", "MB", 1.0, less_is_better=True),
)
ROWS: Final = (
    Row("start", "start to first answered request, secured node", "s", 0.1, less_is_better=True),
    Row("rss-idle", "resident memory, idle", "MB", 1 / 6, less_is_better=True),
    Row("rss-after", "resident memory after the plain loads", "MB", 1 / 6, less_is_better=True),
    *LOADS,
    Row("java-produce", "Kafka's ProducerPerformance, 1 KB", "MB/s", 1.0),
    Row("java-consume", "Kafka's ConsumerPerformance, 1 KB", "MB/s", 1.0),
    *_secured(LOADS),
    Row("rss-after-secured", "resident memory after the secured loads", "MB", 1 / 6, less_is_better=True),
    *SESSIONS,
    *LOGINS,
    *ACLS,
    *TRANSACTIONS,
    *GROUPS,
    *CLUSTER,
    *CONNECT,
    *SINK,
    *ZOOKEEPER,
    *AUTHORIZATION,
)


@dataclass(slots=True)
class Measured:
    """What one system gave for one row: a value a repetition, and the node's processor time per record or request."""

    values: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Give the median value."""
        return statistics.median(self.values)

    @property
    def median_cpu_us(self) -> float | None:
        """Give the median processor time, None where it was not taken."""
        return statistics.median(self.cpu_us) if self.cpu_us else None


Results = dict[str, Measured]
"""By row key."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row, compared."""

    row: Row
    kafka: Measured
    barnabas: Measured

    @property
    def ratio(self) -> float:
        """Give Barnabas' median through Kafka's."""
        return self.barnabas.median / self.kafka.median

    @property
    def reached(self) -> bool:
        """Say whether the goal is reached; where there is an absolute limit too, reaching that is enough."""
        row = self.row
        if not row.less_is_better:
            return self.ratio >= row.goal
        return self.ratio <= row.goal or 0 < self.barnabas.median <= row.limit


def verdicts(kafka: Results, barnabas: Results, counts: Mapping[str, int]) -> list[Verdict]:
    """Give every row that both have. counts: what titles name, so that they tell what was measured."""
    return [
        Verdict(replace(r, title=r.title.format_map(counts)), kafka[r.key], barnabas[r.key])
        for r in ROWS
        if r.key in kafka and r.key in barnabas
    ]
