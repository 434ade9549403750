"""A read-process-write loop as applications write it, by librdkafka: `python -m tests.chaos.loops.loop FILE`.

It copies each record to the partition of the same number, and commits that together with how far it has read (KIP-98,
KIP-447). An error that only the end of the transaction helps against is answered by that, any other by exit code 3:
whoever started it starts it again. So it is with a call that never returns, as librdkafka's send_offsets_to_transaction
sometimes does not (2.16): SIGALRM ends the process.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

FAILED: Final = 3
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
TRANSACTION_MS: Final = 10_000
MOST_RECORDS: Final = 60
LONGEST_S: Final = 0.3
CHANGES_ITS_MIND: Final = 0.05
"""So many transactions are aborted for no reason."""
HANGS_S: Final = 30
_CALL_S: Final = 15.0
_CLASSIC: Final = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
"""What a group of the consumer protocol is told by its coordinator."""
_CARELESS_COMMITS: Final = 10
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """What a loop does. name: its transactional id. settings: librdkafka's, to connect. protocol: the group's.

    careless: it commits offsets outside of the transactions, and rarely. A check has to find that.
    """

    name: str
    group: str
    source: str
    target: str
    settings: Mapping[str, Any]
    protocol: str = "classic"
    seed: int = 0
    careless: bool = False

    def write(self, file: Path) -> None:
        """Write it down for the process that does it."""
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def read(cls, file: Path) -> Job:
        """Give what was written down."""
        return cls(**json.loads(file.read_text("utf-8")))


class Loop:
    """One consumer and one producer."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rng = random.Random(job.seed)
        self._next: dict[int, int] = {}
        """Behind what is in the open transaction, by partition; empty when none is open."""
        self._records = 0
        self._ends_at = 0.0
        self._rewinds = False
        self._committed = 0
        self._stopping = False
        patient = {"reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 10_000, "log_level": 4}
        self._consumer = confluent_kafka.Consumer(
            {
                **job.settings,
                **patient,
                "client.id": job.name,
                "group.id": job.group,
                "group.protocol": job.protocol,
                **(_CLASSIC if job.protocol == "classic" else {}),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._producer = confluent_kafka.Producer(
            {
                **job.settings,
                **patient,
                "client.id": job.name,
                "transactional.id": job.name,
                "transaction.timeout.ms": TRANSACTION_MS,
                "linger.ms": 5,
            }
        )

    def stop(self, *_: object) -> None:
        """End after what is under way; may be called by a signal."""
        self._stopping = True

    def run(self) -> None:
        """Work until told to stop; KafkaException when it cannot go on."""
        self._again(lambda: self._producer.init_transactions(_CALL_S))
        say("at work")
        self._consumer.subscribe([self._job.source], on_revoke=self._revoked, on_lost=self._lost)
        while not self._stopping:
            signal.alarm(HANGS_S)
            message = self._consumer.poll(0.05)
            if self._rewinds:
                self._rewind()  # the message comes again
            elif message is not None:
                self._copy(message)
            if self._next and (self._records >= MOST_RECORDS or time.monotonic() >= self._ends_at):
                self._end()
        self._end()
        self._consumer.close()

    def _copy(self, message: confluent_kafka.Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            say(f"consumer: {error}")
            if error.fatal():
                raise KafkaException(error)
            return
        assert partition is not None
        assert offset is not None
        if not self._next:
            self._producer.begin_transaction()
            self._records = 0
            self._ends_at = time.monotonic() + self._rng.uniform(0, LONGEST_S)
        self._producer.produce(self._job.target, message.value(), partition=partition)
        self._producer.poll(0)
        self._next[partition] = offset + 1
        self._records += 1

    def _end(self) -> None:
        """Commit the open transaction if there is one, or abort it and begin again where it began."""
        if not self._next:
            return
        try:
            if self._rng.random() < CHANGES_ITS_MIND:
                # Without this librdkafka may abort what the coordinator has not heard of, and be fatally surprised.
                self._producer.flush(_CALL_S)
                self._abort()
            elif self._job.careless:
                self._commit_carelessly()
            else:
                self._commit()
        except KafkaException as e:
            say(f"producer: {e.args[0]}")
            if not e.args[0].txn_requires_abort():
                raise
            self._abort()

    def _commit(self) -> None:
        offsets = [TopicPartition(self._job.source, p, offset) for p, offset in self._next.items()]
        group = self._consumer.consumer_group_metadata()
        self._again(lambda: self._producer.send_offsets_to_transaction(offsets, group, _CALL_S))
        self._again(lambda: self._producer.commit_transaction(_CALL_S))
        self._next.clear()

    def _commit_carelessly(self) -> None:
        offsets = [TopicPartition(self._job.source, p, offset) for p, offset in self._next.items()]
        self._again(lambda: self._producer.commit_transaction(_CALL_S))
        self._next.clear()
        self._committed += 1
        if self._committed % _CARELESS_COMMITS == 0:
            self._consumer.commit(offsets=offsets, asynchronous=False)

    def _abort(self) -> None:
        self._again(lambda: self._producer.abort_transaction(_CALL_S))
        self._next.clear()
        self._rewinds = True

    def _rewind(self) -> None:
        """Read again from what is committed."""
        self._rewinds = False
        assigned = self._consumer.assignment()
        if not assigned:
            return
        for at in self._again(lambda: self._consumer.committed(assigned, timeout=_CALL_S)):
            at.offset = at.offset if at.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            self._consumer.seek(at)

    def _revoked(self, consumer: confluent_kafka.Consumer, taken: list[TopicPartition]) -> None:
        self._end()  # while the partitions are still this one's

    def _lost(self, consumer: confluent_kafka.Consumer, taken: list[TopicPartition]) -> None:
        say("partitions lost")
        if self._next:
            self._abort()

    def _again(self, call: Callable[[], T]) -> T:
        """Call until it works, or fails for a reason that asking again does not help against."""
        while True:
            signal.alarm(HANGS_S)
            try:
                return call()
            except KafkaException as e:
                say(f"again: {e.args[0]}")
                if not e.args[0].retriable():
                    raise


def say(what: str) -> None:
    """Tell whoever reads the process's log."""
    print(f"{time.strftime('%X')} {what}", flush=True)


def main() -> int:
    """Do the job that the file tells; exit code 3 when it cannot go on."""
    loop = Loop(Job.read(Path(sys.argv[1])))
    signal.signal(signal.SIGTERM, loop.stop)
    faulthandler.register(signal.SIGUSR1)  # where does it stand?
    try:
        loop.run()
    except KafkaException as e:
        say(f"ended: {e.args[0]}")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
