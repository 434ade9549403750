"""`python -m bench`: measure Barnabas against Apache Kafka in one run, write docs/benchmarks.md and the README."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench import authorization, cluster, wire
from bench.goals import Measured, Results, verdicts
from bench.librdkafka import Librdkafka
from bench.loads import FULL, PARTITIONS, QUICK, Loads, Sizes
from bench.report import write
from bench.systems import BarnabasSystem, KafkaSystem, System

IDLE_S: Final = 5.0
"""How long a node rests before its idle memory is taken."""
WARM_S: Final = 5.0
PARTS: Final = ("secured", "plain", "cluster", "authorization", "spark")
SYSTEMS: Final[tuple[type[System], ...]] = (KafkaSystem, BarnabasSystem)
_SHORT: Final[dict[str, type[System]]] = {"kafka": KafkaSystem, "barnabas": BarnabasSystem}


def main(argv: list[str] | None = None) -> int:
    """Run the whole comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few minutes, small loads, wide spread")
    parser.add_argument("--dry-run", action="store_true", help="print JSON, write no file")
    parser.add_argument("--only", choices=PARTS, action="append", help="with --dry-run: leave the other parts out")
    parser.add_argument("--system", choices=sorted(_SHORT), help="with --dry-run: leave the other system out")
    args = parser.parse_args(argv)
    parts = set(args.only or PARTS)
    sizes, shape = (QUICK, cluster.QUICK) if args.quick else (FULL, cluster.FULL)
    results: dict[str, Results] = {kind.name: {} for kind in SYSTEMS}
    for kind in SYSTEMS:
        if args.system is not None and kind is not _SHORT[args.system]:
            continue
        with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work:
            measure(kind, Path(work), sizes, results[kind.name], parts)
        if "cluster" in parts:
            say(f"{kind.name}, a cluster")
            cluster.measure_cluster(kind is KafkaSystem, shape, results[kind.name], say)
    kafka, ours = (results[kind.name] for kind in SYSTEMS)
    if "authorization" in parts:
        _authorization(sizes, kafka, ours)
    if args.dry_run:
        print(json.dumps({n: {k: (m.values, m.cpu_us) for k, m in r.items()} for n, r in results.items()}, indent=1))
        return 0
    compared = verdicts(kafka, ours, shape.counts)
    codec = _codec()

    def publish(extra: str) -> None:
        write(compared, sizes, f"librdkafka {Librdkafka().version}.", extra, warm_s=WARM_S, partitions=PARTITIONS)

    publish(codec)  # before Spark, whose failure must not cost what was measured so far
    if "spark" in parts:
        publish(f"{_spark(sizes)}\n{codec}")
    return 0


def measure(kind: type[System], work: Path, sizes: Sizes, results: Results, parts: set[str]) -> None:
    """Measure one system, secured and plain."""
    if "secured" in parts:
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
