"""`python -m tests.chaos`: a long chaos run on a cluster of processes, Barnabas's or Apache Kafka's.

The load is either clients of every kind, or loops that bring records from topic to topic in transactions.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from barnabas.testing.processes import Barnabas, ProcessCluster, Software
from tests.chaos.loops import run as loops
from tests.chaos.run import Account, run
from tests.peers.apache import ApacheKafka


class Chaos(TypedDict):
    """How a run is to be, whatever the load."""

    seed: int
    seconds: float
    say: Callable[[str], None]
    rate: float


def main() -> int:
    """Run, and print the account; exit code 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("CHAOS_MINUTES") or 10))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 31)))
    parser.add_argument("--software", choices=("barnabas", "kafka", "mixed"), default="barnabas")
    parser.add_argument("--load", choices=("clients", "loops"), default=os.environ.get("CHAOS_LOAD") or "clients")
    parser.add_argument("--controllers", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--combined", type=int, default=0)
    parser.add_argument("--plaintext", action="store_true", help="no TLS, no login, no ACLs")
    parser.add_argument("--rate", type=float, default=100.0, help="records a second of each producer")
    parser.add_argument("--keep", type=Path, help="leave the cluster's files in this directory")
    args = parser.parse_args()
    software: dict[str, type[Barnabas] | type[ApacheKafka]] = {"barnabas": Barnabas, "kafka": ApacheKafka}

    def of(node_id: int) -> Software:
        if args.software == "mixed":
            return (Barnabas, ApacheKafka)[node_id % 2]()
        return software[args.software]()

    with tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory:
        cluster = ProcessCluster(
            args.keep or Path(directory),
            controllers=0 if args.combined else args.controllers,
            brokers=0 if args.combined else args.brokers,
            combined=args.combined,
            plaintext=args.plaintext,
            software=of,
            proxied=True,
            properties=loops.PROPERTIES if args.load == "loops" else {"group.initial.rebalance.delay.ms": "0"},
        )
        print(
            f"seed {args.seed}, {args.minutes:g} minutes, {args.software}: {len(cluster.nodes)} nodes, {args.load}",
            flush=True,
        )
        how = Chaos(seed=args.seed, seconds=args.minutes * 60, say=_say, rate=args.rate)
        with cluster:
            account: Account | loops.Account
            if args.load == "loops":
                account = loops.run(cluster, args.keep or Path(directory), **how)
            else:
                account = run(cluster, **how)
            print("\n".join(account.lines()))
            if account.wrong:
                print(cluster.logs(), file=sys.stderr)
    return 1 if account.wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
