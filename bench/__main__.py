"""`python -m bench`: measure Barnabas against Apache Kafka in one run, write docs/benchmarks.md and the README."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import authorization, cluster, connect, groups, logins, spark_sink, store, transactions, wire, zookeeper
from bench.goals import Measured, Results
from bench.librdkafka import Librdkafka
from bench.loads import (
    FULL,
    PARTITIONS,
    QUICK,
    SESSION_S,
    SESSIONS_FULL,
    SESSIONS_QUICK,
    SESSIONS_RULES,
    Loads,
    Sizes,
)
from bench.logins import measure_logins
from bench.report import circumstances, write
from bench.systems import BarnabasSystem, KafkaSystem, System

IDLE_S: Final = 5.0
"""How long a node rests before its idle memory is taken."""
WARM_S: Final = 5.0
PARTS: Final = (
    "secured",
    "plain",
    "sessions",
    "logins",
    "acls",
    "transactions",
    "groups",
    "cluster",
    "connect",
    "sink",
    "zookeeper",
    "authorization",
    "spark",
    "codec",
)
SYSTEMS: Final[tuple[type[System], ...]] = (KafkaSystem, BarnabasSystem)
PartsOfASystem = dict[str, Results]
_SHORT: Final[dict[str, type[System]]] = {"kafka": KafkaSystem, "barnabas": BarnabasSystem}


def main(argv: list[str] | None = None) -> int:
    """Run the comparison, or parts of it; the others stay as they were measured last."""
    args = _arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all that was started is ended
    parts = set(args.only or PARTS)
    sizes, shape = (QUICK, cluster.QUICK) if args.quick else (FULL, cluster.FULL)
    micro_batches = spark_sink.QUICK if args.quick else spark_sink.FULL
    systems = [kind for kind in SYSTEMS if args.system is None or kind is _SHORT[args.system]]
    found = {kind.name: {part: Results() for part in PARTS} for kind in SYSTEMS}
    failures: list[str] = []
    for kind in systems:
        with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work:
            measure(kind, Path(work), sizes, found[kind.name], parts)
            measure_security(kind, Path(work), args.quick, found[kind.name], parts)
            measure_coordinators(kind, Path(work), args.quick, found[kind.name], parts)
        if "cluster" in parts:
            say(f"{kind.name}, a cluster")
            cluster.measure_cluster(kind is KafkaSystem, shape, found[kind.name]["cluster"], say)
        if "connect" in parts:
            say(f"{kind.name}, Connect workers")
            loads = connect.QUICK if args.quick else connect.FULL
            failures += connect.measure_connect(kind is KafkaSystem, loads, found[kind.name]["connect"], say)
        if "sink" in parts:
            say(f"{kind.name}, Spark's sinks")
            with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work:
                spark_sink.measure_sink(kind, Path(work), micro_batches, found[kind.name]["sink"], say)
    in_zookeeper_mode = zookeeper.QUICK if args.quick else zookeeper.FULL
    measure_in_turn(systems, sizes, in_zookeeper_mode, found, parts)
    kafka, ours = (found[kind.name] for kind in SYSTEMS)
    if args.dry_run:
        print(
            json.dumps({n: {p: _plain(r) for p, r in by_part.items() if r} for n, by_part in found.items()}, indent=1)
        )
        return 1 if failures else 0
    counts = {
        "cluster": shape.counts,
        "sessions": {"session_s": SESSION_S, "sessions_rules": SESSIONS_RULES},
        "acls": {"rules": sizes.rules},
        "groups": (groups.QUICK if args.quick else groups.FULL).counts,
        "sink": micro_batches.counts,
        "zookeeper": in_zookeeper_mode.counts,
    }
    for part in PARTS:
        if kafka[part]:
            text = failed_rows(failures) if part == "connect" else ""
            keep(part, store.Part(circumstances(), kafka[part], ours[part], counts.get(part, {}), text), sizes)
    for part, measured in (("codec", _codec), ("spark", lambda: _spark(sizes))):
        if part in parts:
            keep(part, store.Part(circumstances(), text=measured()), sizes)
    return 1 if failures else 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few minutes, small loads, wide spread")
    parser.add_argument("--dry-run", action="store_true", help="print JSON, write no file")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part, keep the others' figures")
    parser.add_argument("--system", choices=sorted(_SHORT), help="with --dry-run: leave the other system out")
    args = parser.parse_args(argv)
    if args.system is not None and not args.dry_run:
        parser.error("--system leaves nothing to compare with: it wants --dry-run")
    return args


def keep(name: str, part: store.Part, sizes: Sizes) -> None:
    """Put a part that was measured in its place, and write everything anew."""
    parts = store.load() | {name: part}
    parts = {each: parts[each] for each in PARTS if each in parts}
    store.save(parts)
    write(parts, sizes, f"librdkafka {Librdkafka().version}.", warm_s=WARM_S, partitions=PARTITIONS)


def failed_rows(failures: Sequence[str]) -> str:
    """Give the paragraph that says what could not be measured, empty when all could."""
    if not failures:
        return ""
    return "\n".join(["Not measured, or not every time, as it failed:", "", *(f"- {each}" for each in failures)]) + "\n"


def _plain(results: Results) -> dict[str, tuple[list[float], list[float]]]:
    return {key: (measured.values, measured.cpu_us) for key, measured in results.items()}


def measure(kind: type[System], work: Path, sizes: Sizes, found: PartsOfASystem, parts: set[str]) -> None:
    """Measure one system, secured and plain."""
    if "secured" in parts:
        results = found["secured"]
        say(f"{kind.name}, secured")
        with kind(work / "secured", secured=True) as system:
            system.prepare()
            for _ in range(sizes.starts):
                note(results, "start", system.start())
                system.stop()
            system.start()
            run(Loads(system, sizes, results, say, "-secured"))
            note(results, "rss-after-secured", system.rss_mb())
    if "plain" in parts:
        results = found["plain"]
        say(f"{kind.name}, plain")
        with kind(work / "plain", secured=False) as system:
            system.prepare()
            system.start()
            time.sleep(IDLE_S)
            note(results, "rss-idle", system.rss_mb())
            loads = Loads(system, sizes, results, say)
            run(loads)
            loads.run_java(work)
            note(results, "rss-after", system.rss_mb())


def measure_security(kind: type[System], work: Path, quick: bool, found: PartsOfASystem, parts: set[str]) -> None:
    """Measure what log-ins, sessions and many ACLs cost one system."""
    if "sessions" in parts:
        say(f"{kind.name}, sessions of {SESSION_S} seconds")
        lasting = SESSIONS_QUICK if quick else SESSIONS_FULL
        ends = {"connections.max.reauth.ms": str(SESSION_S * 1000)}
        with kind(work / "sessions", secured=True, properties=ends) as system:
            system.prepare()
            system.start()
            run(Loads(system, lasting, found["sessions"], say, "-sessions", others=SESSIONS_RULES))
    if "logins" in parts:
        say(f"{kind.name}, log-ins")
        measure_logins(kind is KafkaSystem, logins.QUICK if quick else logins.FULL, found["logins"], say)
    if "acls" in parts:
        sizes = QUICK if quick else FULL
        results = found["acls"]
        say(f"{kind.name}, {sizes.rules:,} ACLs")
        with kind(work / "acls", secured=True) as system:
            system.prepare()
            system.start()
            loads = Loads(system, sizes, results, say, others=sizes.rules)
            loads.prepare()
            system.stop()
            for _ in range(sizes.starts):
                say("  start-acls")
                note(results, "start-acls", system.start(loads.may_see))
                note(results, "rss-acls", system.rss_mb())
                system.stop()


def measure_coordinators(kind: type[System], work: Path, quick: bool, found: PartsOfASystem, parts: set[str]) -> None:
    """Measure what one system's coordinators of transactions and of groups do."""
    if "transactions" in parts:
        say(f"{kind.name}, transactions")
        many = transactions.QUICK if quick else transactions.FULL
        transactions.measure_transactions(kind, work, many, found["transactions"], say)
    if "groups" in parts:
        say(f"{kind.name}, groups")
        groups.measure_groups(kind, work, groups.QUICK if quick else groups.FULL, found["groups"], say)


def measure_in_turn(
    systems: Sequence[type[System]],
    sizes: Sizes,
    in_zookeeper_mode: zookeeper.ZooKeeperSizes,
    found: Mapping[str, PartsOfASystem],
    parts: set[str],
) -> None:
    """Measure what both systems do by turns, not one after the other."""
    if "zookeeper" in parts:
        say("ZooKeeper mode")
        by_system = {key: found[kind.name]["zookeeper"] for key, kind in _SHORT.items() if kind in systems}
        zookeeper.measure_zookeeper(by_system, in_zookeeper_mode, say)
    if "authorization" in parts:
        _authorization(sizes, *(found[kind.name]["authorization"] for kind in SYSTEMS))


def run(loads: Loads) -> None:
    """Warm up, then measure."""
    loads.prepare()
    say("  warm up")
    loads.warm_up()
    loads.run()


def note(results: Results, key: str, value: float) -> None:
    """Add a value to a row."""
    results.setdefault(key, Measured()).values.append(value)


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _authorization(sizes: Sizes, kafka: Results, ours: Results) -> None:
    say("authorizations")
    for name, rules in authorization.COUNTS.items():
        if rules > sizes.rules:
            continue
        for results, cost in ((kafka, authorization.kafkas(rules)), (ours, authorization.ours(rules))):
            note(results, f"authorize-{name}", cost.one)
            note(results, f"any-topic-{name}", cost.any_topic)
            note(results, f"acl-load-{name}", cost.load)
            note(results, f"acl-memory-{name}", cost.memory)


def _spark(sizes: Sizes) -> str:
    say("spark")
    command = [sys.executable, "-m", "bench.spark", "--records", str(sizes.records_java)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    rates = json.loads(done.stdout[done.stdout.index("{") :])
    lines = [f"Spark and its reader, {sizes.records_java:,} records of 1 KB, records/s, the best of several:", ""]
    lines += ["| from | how | records/s |", "|---|---|---|"]
    lines += [f"| {system} | {how} | {rate:,} |" for system, hows in rates.items() for how, rate in hows.items()]
    return "\n".join(lines) + "\n"


def _codec() -> str:
    say("codec")
    lines = ["Codec (Barnabas alone), microseconds:", "", "| what | µs |", "|---|---|"]
    lines += [f"| {name} | {us} |" for name, us in wire.measure().items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
