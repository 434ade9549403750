"""The figures as Markdown: docs/benchmarks.md, and the short table in the README."""

from __future__ import annotations

import datetime
import os
import platform
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import connect, logins, store
from bench.goals import Measured, Verdict, verdicts
from bench.loads import SESSION_S, SESSIONS_RULES, Sizes
from bench.members import HEARTBEAT_S

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = ROOT / "docs" / "benchmarks.md"
README: Final = ROOT / "README.md"
NOTES: Final = Path(__file__).with_name("notes.toml")
BEGIN: Final = "<!-- benchmarks:begin -->"
END: Final = "<!-- benchmarks:end -->"

_DETAILS: Final = (
    "requests-256", "login-plain", "login-scram-256", "login-oauth", "renew-plain", "renew-scram-256", "renew-oauth",
    "authorize-1", "any-topic-1", "acl-load-1", "acl-memory-1",
)  # fmt: skip
"""Rows that the README's table leaves out, by how their keys begin."""

_METHOD: Final = """\
## Method

`make bench` starts Apache Kafka 4.3.1 (with the JVM options of its own start scripts) and Barnabas one after the
other, each alone on the machine's loopback, secured first (SASL_SSL, SCRAM-SHA-512, StandardAuthorizer, a user that is
no super user), then plain. The same clients drive both, on the same cores as the node:

- librdkafka, its C library called in batches, default settings but larger queues; topics of {partitions} partitions,
  replication factor 1; every record must be acknowledged. Fetches begin at the first record, clock included from there.
- One-record requests: Produce requests of one 100-byte record, acks=all, over plain sockets (or TLS ones), one under
  way on each connection. p99 is of a request, seen by the client.
- Kafka's `ProducerPerformance` (acks=all) and `ConsumerPerformance`, each in a JVM of its own.
- Sessions that end: the records again, while every connection must renew its login every {session} seconds, among
  {others:,} ACLs; each load lasts longer than that, reading begins again from the first record.
- Log-ins: {under_way} at a time, each on a new connection, as Java's clients do it (ApiVersions, SaslHandshake, tokens;
  TLS without resumption), closed when it is over. Renewals: as many at a time, round {connections:,} connections, as a
  node lets each renew once a second only. SCRAM users have 4,096 iterations, Kafka's own number; these are the
  client's to work off, and the load does so once. Both nodes have the same configuration, certificates (ECDSA P-256)
  and keys (RSA, 2,048 bits). Where the load or that second bounds the rate, the processor time tells them apart.
- Transactions: each has 10 records of 100 bytes, for one of 3 partitions, without lingering; every producer has a
  thread of its own, and one transaction under way. "CPU" is per transaction. The fetched ones have 1,000 records each.
  Idempotent and plain produce take turns, both with five requests under way at most, as idempotence wants it. Their
  clock starts when a first hundred records are acknowledged, so that connecting and asking for an id are not
  counted.
- Groups: scripted members, each with a connection of its own, do what a client does, but send a heartbeat every
  {heartbeat:g} s; nobody waits for more members (`group.initial.rebalance.delay.ms` and
  `group.consumer.assignment.interval.ms` are 0 for both). The topic has as many partitions as the group has members;
  the time is from the moment when all have begun to join until each holds one partition, none held twice, all in one
  generation; by the consumer protocol a pause between heartbeats is in it, after which members take what others gave
  up. "CPU" is per member. Each commit is of one partition's offset, for a group of its connection's own, one under way
  on each. Memory is looked at 5 s after each of the groups has one member, which has its share and has committed an
  offset; on Apache Kafka, that of the JVM.
- Start with many ACLs: they stand in the metadata log; the time is until a user whose rights come from two of them, and
  who logs in by SCRAM, is told of a topic.
- Clusters: three controllers and three brokers, plaintext, each a process, on the same cores. Failovers: a client does
  one thing after the other (changes a topic's configuration; writes records by librdkafka with acks=all) while SIGKILL
  ends the active controller, or the partition's leader; the time is from the kill to the first success of what began
  after it. Starts: from six stopped nodes to a leader for every partition, each with one replica.
- Connect: a node of Barnabas is the broker of both kinds of workers, which are given the same file; Kafka's have the
  JVM options of their own scripts (a heap of 2 GB at most). Records have 100 bytes of hexadecimal digits, as strings,
  no keys; {connect_records:,} go through each sink, however many tasks it has. Rates are from the first record that has
  arrived to the last; "CPU" is that of the worker and of all that it has started. Parquet: one task, 4 partitions; what
  stands beside it is no worker but a Spark session that reads the same topic by Spark's own `kafka` source, into the
  same columns, in batches of the size that those of our sinks grow to. Killed workers: two of a kind, one connector
  with one task; SIGKILL ends the one that has the task, and both times are from there, nothing subtracted. It takes
  `session.timeout.ms` and `consumer.session.timeout.ms`, both 10,000 for both kinds, until anybody knows. Memory is
  that of the worker and of every process that it has started, Spark's JVM too, the median of looks within two seconds
  after each task has written {connect_task_records:,} records; for a further task it is a nineteenth of what 20 tasks
  take more than one.
- Spark's sinks: one session on all cores writes micro-batches of Spark's own `rate-micro-batch` source, in four tasks,
  into four partitions, one after the other without pause. Time is that of whole micro-batches as Spark reports it:
  planned, written, committed, noted in the checkpoint; "CPU" is the node's per record. At least once, Spark's own
  `kafka` sink with its defaults is what writes to Apache Kafka; our sink writes to either in the rows that say so. The
  sinks take turns, and a query's first two micro-batches do not count.
- ZooKeeper: Apache Kafka is 3.9.1 there, the last release that runs on it, and both systems have the same server,
  3.8.4 with the JVM options of its own start script. The tools take turns, secure and unsecure, on a tree of topics of
  ten partitions, after a turn each that is not measured; time is that of the whole process, start included, "CPU" is
  the tool's own for each znode, and after each turn all ACLs are looked at. Cluster: two brokers, topics of ten
  partitions, two copies. Start: from the process to the moment when the broker itself tells its clients that all
  partitions have both copies in sync. Controller: SIGKILL ends the one that leads all; the time is from when
  `/controller` is gone (sessions last 6 s, the same for both) until the other tells its clients that it leads all.
- Authorizations: a rule for each of so many topics or prefixes, 1,000 users; in process, Kafka's in Java. "Any topic"
  asks for WRITE as a user who has READ rules only. Memory is what the rules and their index take on the heap.
- Every load runs once for {warm} seconds at most to warm up, unmeasured, then {repeats} times, {few} times where
  sessions end, at log-ins, on clusters and by Connect's workers. Figures are medians,
  with the smallest and the largest beside them. "CPU" is the node's own processor time per record or request: it holds
  on a busy machine as well.
- Resident memory is what the system counts as such (for Kafka memory-mapped index files too).
"""


def write(parts: Mapping[str, store.Part], sizes: Sizes, peers: str, *, warm_s: float, partitions: int) -> None:
    """Write both files."""
    compared = verdicts(*store.rows(parts.values()))
    document = [
        "# Benchmarks",
        "",
        "Written by `make bench`; nothing here is typed by hand but the notes on missed goals (`bench/notes.toml`).",
        f"{peers} Each part compares both systems in one run:",
        "",
        *(f"- {name}: {part.circumstances}" for name, part in parts.items()),
        "",
        _table(compared),
        "",
        *(part.text for part in parts.values() if part.text),
        _METHOD.format(
            partitions=partitions,
            warm=f"{warm_s:g}",
            heartbeat=HEARTBEAT_S,
            repeats=sizes.repeats,
            few=logins.FULL.repeats,
            session=SESSION_S,
            others=SESSIONS_RULES,
            under_way=logins.FULL.under_way,
            connections=logins.FULL.connections,
            connect_records=connect.FULL.records,
            connect_task_records=connect.FULL.task_records,
        ),
        "## What stands in the way",
        "",
        _missed(compared),
        "",
        "## Every figure",
        "",
        _raw(compared),
    ]
    DOCUMENT.write_text("\n".join(document).rstrip() + "\n", encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    short = [v for v in compared if not v.row.key.startswith(_DETAILS)]
    text = (
        f"{_short_table(short)}\n\nMedians, and their ratio to Apache Kafka 4.3.1 in the same run, same clients, same "
        f"cores.\nDays, machine, method, spread and every figure: [docs/benchmarks.md](docs/benchmarks.md)."
    )
    README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def circumstances() -> str:
    """Say what day it is, on what machine, and how busy that is."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    load = os.getloadavg()[0]
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return (
        f"{today}, {os.cpu_count()} cores ({cpu}), Linux {platform.release()}, CPython {platform.python_version()}, "
        f"load average at the end {load:.1f}."
    )


def _table(verdicts: Sequence[Verdict]) -> str:
    lines = [
        "| work | unit | Kafka | Barnabas | ratio | goal | | CPU, Kafka | CPU, Barnabas |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {v.row.title} | {v.row.unit} | {_spread(v.kafka)} | {_spread(v.barnabas)} | {_ratio(v.ratio)} "
        f"| {_goal(v)} | {'reached' if v.reached else '**missed**'} | {_cpu(v.kafka)} | {_cpu(v.barnabas)} |"
        for v in verdicts
    ]
    return "\n".join(lines)


def _short_table(verdicts: Sequence[Verdict]) -> str:
    lines = ["| work | Kafka | Barnabas | ratio | goal |", "|---|---|---|---|---|"]
    for v in verdicts:
        mark = "" if v.reached else " (missed)"
        lines.append(
            f"| {v.row.title} | {_number(v.kafka.median)} {v.row.unit} | {_number(v.barnabas.median)} {v.row.unit} "
            f"| {_ratio(v.ratio)} | {_goal(v)}{mark} |"
        )
    return "\n".join(lines)


def _missed(verdicts: Sequence[Verdict]) -> str:
    notes = tomllib.loads(NOTES.read_text(encoding="utf-8")) if NOTES.exists() else {}
    lines = [
        f"- **{v.row.title}** ({_ratio(v.ratio)}, goal {_goal(v)}): {notes.get(v.row.key, 'not explained yet.')}"
        for v in verdicts
        if not v.reached
    ]
    return "\n".join(lines) if lines else "Every goal was reached in this run."


def _raw(verdicts: Sequence[Verdict]) -> str:
    lines = ["| row | system | values, in the order of the run |", "|---|---|---|"]
    for v in verdicts:
        for name, measured in (("Kafka", v.kafka), ("Barnabas", v.barnabas)):
            lines.append(f"| {v.row.key} | {name} | {', '.join(map(_number, measured.values))} |")
    return "\n".join(lines)


def _spread(measured: Measured) -> str:
    if len(measured.values) == 1:
        return _number(measured.median)
    return f"{_number(measured.median)} ({_number(min(measured.values))}–{_number(max(measured.values))})"


def _goal(v: Verdict) -> str:
    if not v.row.less_is_better:
        return f"≥ {v.row.goal:g}x"
    limit = f" or ≤ {_number(v.row.limit)} {v.row.unit}" if v.row.limit else ""
    return f"≤ {v.row.goal:.2f}x{limit}"


def _cpu(measured: Measured) -> str:
    cpu = measured.median_cpu_us
    return "" if cpu is None else f"{cpu:.2f} µs"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio >= 0.01 else f"{ratio:.4f}x"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
