"""A chaos run: clients at work, faults from a seed, and then the account of what the cluster still knows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.testing.processes import ProcessCluster
from tests.chaos.admins import TIMEOUT_MS, LibrdkafkaAdmin, RawAdmin
from tests.chaos.checks import CHECKS, Outcome, all_wrong, shown, unread
from tests.chaos.consumers import LibrdkafkaConsumer, OwnConsumer
from tests.chaos.history import History
from tests.chaos.nemesis import Nemesis
from tests.chaos.outcome import read_outcome
from tests.chaos.producers import LibrdkafkaProducer, OwnProducer
from tests.chaos.worker import Worker

TOPIC: Final = "chaos"
PARTITIONS: Final = 4
CATCH_UP_SECONDS: Final = 90.0
WARM_UP_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Account:
    """A run that is over. wrong: what each check found, none when all is well."""

    seed: int
    faults: int
    history: History
    outcome: Outcome
    wrong: dict[str, list[str]]

    def lines(self) -> Iterator[str]:
        """Give the account for people."""
        history = self.history
        yield f"seed {self.seed}: {self.faults} faults in {history.now():.0f} s"
        yield (
            f"  {len(history.acknowledged)} records acknowledged, {len(history.failed)} given up, "
            f"{sum(map(len, self.outcome.logs.values()))} in the log"
        )
        for group in sorted({c.group for c in history.consumed}):
            members = {c.member for c in history.consumed if c.group == group}
            yield (
                f"  group {group}: {sum(c.group == group for c in history.consumed)} records given to "
                f"{len(members)} members, {sum(c.group == group for c in history.committed)} commits, "
                f"{sum(t.group == group for t in history.taken_over)} partitions taken over"
            )
        yield f"  {history.changes} admin changes acknowledged"
        yield f"  longest time without an acknowledged record: {_longest_pause(history):.1f} s"
        yield "  what clients were told on the way (all of it tried again or given up):"
        yield from (f"    {count:6d}  {what}" for what, count in history.errors.most_common(25))
        for check in CHECKS:
            what = (check.__doc__ or "").partition("\n")[0]
            wrong = self.wrong.get(what, [])
            yield f"  {'WRONG' if wrong else 'ok   '}  {what}"
            if wrong:
                yield shown(wrong)


def run(
    cluster: ProcessCluster,
    *,
    seed: int,
    seconds: float,
    say: Callable[[str], None] = print,
    rate: float = 100.0,
    longest_fault_s: float = 12.0,
) -> Account:
    """Run on a started cluster with `proxied=True`. rate: records a second of each producer."""
    history = History()
    create_topic(cluster)
    producers, consumers, admins = workers(cluster, history, seed, rate)
    for worker in (*producers, *consumers, *admins):
        worker.start()
    warm_up(history)
    nemesis = Nemesis(cluster, history, seed, say, longest_fault_s)
    stopping = threading.Event()
    timer = threading.Timer(seconds, stopping.set)
    timer.start()
    try:
        nemesis.run(stopping)
    finally:
        timer.cancel()
    say(f"{history.now():7.1f} s  all faults are over")
    for group in (admins, producers):
        for worker in group:
            worker.stop()
        for worker in group:
            worker.join()
    catch_up(history)
    for worker in consumers:
        worker.stop()
    for worker in consumers:
        worker.join()
    outcome = read_outcome(cluster, history, TOPIC, sorted({c.group for c in history.consumed}))
    return Account(seed, nemesis.count, history, outcome, all_wrong(history, outcome))


def create_topic(cluster: ProcessCluster) -> None:
    """Make the topic of a run, on as many brokers as the cluster keeps copies."""
    copies = min(3, len(cluster.brokers))
    admin = AdminClient(cluster.librdkafka())
    topic = NewTopic(TOPIC, PARTITIONS, copies, config={"min.insync.replicas": "2" if copies == 3 else "1"})
    admin.create_topics([topic], operation_timeout=30)[TOPIC].result(60)


def workers(
    cluster: ProcessCluster, history: History, seed: int, rate: float, timeout_ms: int = TIMEOUT_MS
) -> tuple[list[Worker], list[Worker], list[Worker]]:
    """Give the producers, the consumers and the admins, not started. timeout_ms: of the admins' changes."""
    java, librdkafka = cluster.client(), cluster.librdkafka()
    brokers = [n.bootstrap for n in cluster.brokers]
    return (
        [
            LibrdkafkaProducer("librdkafka-producer", history, librdkafka, TOPIC, PARTITIONS, rate),
            OwnProducer("own-producer", history, java, TOPIC, PARTITIONS, rate),
        ],
        [
            LibrdkafkaConsumer("librdkafka-1", history, librdkafka, TOPIC, "readers"),
            LibrdkafkaConsumer("librdkafka-2", history, librdkafka, TOPIC, "readers"),
            OwnConsumer("own-1", history, java, TOPIC, "own-readers"),
        ],
        [
            RawAdmin("raw-admin", history, java, brokers, seed, timeout_ms),
            LibrdkafkaAdmin("librdkafka-admin", history, librdkafka, brokers, timeout_ms),
        ],
    )


def warm_up(history: History) -> None:
    """Wait until everybody has begun: a fault in the first connection proves little."""
    until = time.monotonic() + WARM_UP_SECONDS
    while not (history.changes and len({c.group for c in history.consumed}) == 2):
        if time.monotonic() > until:
            history.surprises.append(f"not every client was at work after {WARM_UP_SECONDS:g} s without any fault")
            return
        time.sleep(0.05)


def catch_up(history: History) -> None:
    """Give the groups time to read what there is; what they do not read is for the checks."""
    until = time.monotonic() + CATCH_UP_SECONDS
    while unread(history, Outcome({})) and time.monotonic() < until:
        time.sleep(0.2)


def _longest_pause(history: History) -> float:
    times = sorted(a.at for a in history.acknowledged)
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)
