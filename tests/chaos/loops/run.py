"""A chaos run of loops: records go from topic to topic in transactions while loops and nodes fail, by a seed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from barnabas.testing.processes import ProcessCluster
from tests.chaos.checks import shown
from tests.chaos.history import History, Mark
from tests.chaos.loops.checks import CHECKS, Outcome, all_wrong
from tests.chaos.loops.clients import Keeper, LoopClient
from tests.chaos.loops.faults import LoopNemesis
from tests.chaos.loops.loop import HEARTBEAT_MS, SESSION_MS, Job
from tests.chaos.loops.reader import Reader
from tests.chaos.outcome import read_log
from tests.chaos.producers import LibrdkafkaProducer

TOPICS: Final = ("orders", "checked", "billed")
PROTOCOLS: Final = ("classic", "consumer")
"""Of the groups between them."""
PARTITIONS: Final = 4
LOOPS: Final = 2
"""In each group, of which one stands between one topic and the next."""
CATCH_UP_SECONDS: Final = 120.0
WARM_UP_SECONDS: Final = 120.0
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
"""What nodes are to be given: whoever was killed is missed soon."""


@dataclass(frozen=True, slots=True)
class Account:
    """A run that is over. restarts: of loops that ended by themselves or were killed; pause: the longest time in which
    no record came to the end, from when to when in seconds of the run."""

    seed: int
    faults: int
    restarts: int
    history: History
    outcome: Outcome
    pause: tuple[float, float]
    wrong: dict[str, list[str]]

    def lines(self) -> Iterator[str]:
        """Give the account for people."""
        yield f"seed {self.seed}: {self.faults} faults in {self.history.now():.0f} s"
        counts = {topic: sum(map(len, logs.values())) for topic, logs in self.outcome.topics.items()}
        yield "  " + ", ".join(f"{count} records in {topic}" for topic, count in counts.items())
        yield f"  loops were started anew {self.restarts} times"
        since, until = self.pause
        yield f"  longest time in which no record came to the end: {until - since:.1f} s, until {until:.1f} s"
        yield "  what clients were told on the way:"
        yield from (f"    {count:6d}  {what}" for what, count in self.history.errors.most_common(25))
        for check in CHECKS:
            what = check.__doc__ or ""
            wrong = self.wrong.get(what, [])
            yield f"  {'WRONG' if wrong else 'ok   '}  {what}"
            if wrong:
                yield shown(wrong)


class LoopRun:
    """The loops on a cluster, with what feeds them and who reads what they write. A context manager."""

    def __init__(
        self, cluster: ProcessCluster, directory: Path, *, seed: int, rate: float, careless: bool = False
    ) -> None:
        """directory: for the loops' files. rate: records a second. careless: see Job."""
        self.history = History()
        self.cluster = cluster
        self.seed = seed
        for topic in TOPICS:
            cluster.create_topic(topic, PARTITIONS)
        settings = cluster.librdkafka()
        self.feeder = LibrdkafkaProducer("feeder", self.history, settings, TOPICS[0], PARTITIONS, rate)
        self.readers = [Reader(self.history, settings, topic, PARTITIONS) for topic in TOPICS[1:]]
        jobs = [
            Job(f"{target}-{n}", f"to-{target}", source, target, settings, protocol, seed + n, careless)
            for (source, target), protocol in zip(pairwise(TOPICS), PROTOCOLS, strict=True)
            for n in range(LOOPS)
        ]
        self.clients = [LoopClient(job, directory, self.history) for job in jobs]
        self.keeper = Keeper(self.clients, self.history)

    def __enter__(self) -> LoopRun:
        self._open = ExitStack()
        for client in self.clients:
            self._open.callback(client.close)
            client.start()
        for worker in (self.feeder, *self.readers, self.keeper):
            self._open.callback(worker.join)
            self._open.callback(worker.stop)
            worker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def done(self) -> int:
        """Give how many records have come to the end."""
        return len(self.readers[-1].times)

    def wait_done(self, count: int, seconds: float) -> bool:
        """Wait until so many records have come to the end; False when it takes longer."""
        return self.readers[-1].wait(count, seconds)

    def outcome(self) -> Outcome:
        """Let everything come to rest, and read it. Everybody is stopped."""
        self.feeder.stop()
        self.feeder.join()
        source = self._logs(TOPICS[0])
        fed = sum(map(len, source.values()))
        if not self.wait_done(fed, CATCH_UP_SECONDS):
            tails = "\n".join(f"--- {client.job.name}\n{client.log_tail()}" for client in self.clients)
            self.history.surprises.append(
                f"{self.done()} of {fed} records have come to the end {CATCH_UP_SECONDS:g} s after all faults\n{tails}"
            )
        self.keeper.stop()
        self.keeper.join()
        for client in self.clients:
            client.stop()
        topics = {TOPICS[0]: source} | {topic: self._logs(topic) for topic in TOPICS[1:]}
        for reader in self.readers:
            wanted = sum(map(len, topics[reader.topic].values()))
            reader.wait(wanted, CATCH_UP_SECONDS)
            reader.stop()
            reader.join()
        seen = {reader.topic: reader.seen for reader in self.readers}
        return Outcome(topics, seen, tuple(self.history.surprises))

    def _logs(self, topic: str) -> dict[int, list[tuple[int, Mark]]]:
        return {p: read_log(self.cluster.librdkafka(), topic, p) for p in range(PARTITIONS)}


def run(
    cluster: ProcessCluster,
    directory: Path,
    *,
    seed: int,
    seconds: float,
    say: Callable[[str], None] = print,
    rate: float = 100.0,
    longest_fault_s: float = 12.0,
) -> Account:
    """Run on a started cluster with `proxied=True` and PROPERTIES."""
    with LoopRun(cluster, directory, seed=seed, rate=rate) as loops:
        if not loops.wait_done(1, WARM_UP_SECONDS):
            loops.history.surprises.append(f"nothing came to the end within {WARM_UP_SECONDS:g} s without any fault")
        begun = loops.history.now()
        nemesis = LoopNemesis(
            cluster, loops.history, seed, say, longest_fault_s, clients=loops.clients, done=loops.done
        )
        stopping = threading.Event()
        timer = threading.Timer(seconds, stopping.set)
        timer.start()
        try:
            nemesis.run(stopping)
        finally:
            timer.cancel()
        say(f"{loops.history.now():7.1f} s  all faults are over")
        outcome = loops.outcome()
        times = [at for at in loops.readers[-1].times if at >= begun]
        pause = max(pairwise(times), key=lambda pair: pair[1] - pair[0], default=(begun, begun))
        restarts = sum(client.starts - 1 for client in loops.clients)
        return Account(seed, nemesis.count, restarts, loops.history, outcome, pause, all_wrong(outcome))
