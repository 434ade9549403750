"""Members of groups of both protocols come and go while records come in: none is lost, none read by two."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.testing.cluster import Cluster
from tests.clients.nodes import until

from .test_consumer_protocol import QUICK_GROUPS

PARTITIONS, MEMBERS, CHANGES, WAIT_SECONDS = 6, 3, 8, 60.0
SETTINGS: dict[str, dict[str, Any]] = {
    "classic": {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 200},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 200},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "node", QUICK_GROUPS) as running:
        running.create_topic("busy", PARTITIONS)
        yield running


class Group:
    """What all members have done: who has which partition, and what was read.

    lost: members that were shut out and learned of it late, as may happen on a machine that is too busy for their
    heartbeats: others may have had their partitions by then.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self.read: dict[tuple[int, int], list[str]] = {}
        self.overlaps: list[tuple[int, str, str]] = []
        self.lost: set[str] = set()
        self.faults: list[str] = []

    def taken(self, name: str, partitions: list[int]) -> None:
        with self.lock:
            for partition in partitions:
                if partition in self.owners:
                    self.overlaps.append((partition, self.owners[partition], name))
                self.owners[partition] = name

    def given_up(self, name: str, partitions: list[int]) -> None:
        with self.lock:
            for partition in partitions:
                if self.owners.get(partition) == name:
                    del self.owners[partition]


class Member:
    """A consumer in a thread; it commits what it has read when it gives partitions up."""

    def __init__(self, cluster: Cluster, group: Group, name: str, protocol: str) -> None:
        self.name = name
        self._is_eager = protocol == "classic"
        self._group = group
        self._positions: dict[int, int] = {}
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                **cluster.admin.librdkafka,
                "client.id": name,
                "group.id": "churning",
                **SETTINGS[protocol],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_SECONDS)
        if self._thread.is_alive():
            self._group.faults.append(f"{self.name} does not end")

    def _run(self) -> None:
        self._consumer.subscribe(["busy"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self._stop.is_set():
                message = self._consumer.poll(0.05)
                if message is None:
                    continue
                if message.error() is not None:
                    self._group.faults.append(f"{self.name}: {message.error()}")
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._positions[partition] = offset + 1
                with self._group.lock:
                    self._group.read.setdefault((partition, offset), []).append(self.name)
        finally:
            self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._group.taken(self.name, [p.partition for p in partitions])
        if self._is_eager:
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [p.partition for p in partitions]
        read = [TopicPartition("busy", n, self._positions.pop(n)) for n in numbers if n in self._positions]
        try:
            for done in consumer.commit(offsets=read, asynchronous=False) if read else ():
                if done.error is not None:
                    self._group.faults.append(f"{self.name} could not commit {done}")
        except KafkaException as e:
            self._group.faults.append(f"{self.name} could not commit: {e}")
        self._group.given_up(self.name, numbers)
        if self._is_eager:
            consumer.unassign()
        else:
            consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._group.lost.add(self.name)
        self._positions.clear()
        self._group.given_up(self.name, [p.partition for p in partitions])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "protocols", [["consumer"], ["classic"], ["cooperative"], ["classic", "consumer"]], ids=" and ".join
)
def test_no_record_is_lost_and_none_goes_to_two(cluster: Cluster, protocols: list[str], seed: int) -> None:
    """With both protocols the group moves between them as its last member of one kind leaves (KIP-848).

    Not with cooperative members of librdkafka's: their leader leaves data of its own in the assignments, which a group
    of the consumer protocol would lose, and so the coordinator, Kafka's or ours, does not let the first one in.
    """
    chance = random.Random(seed)
    group = Group()
    producer = Producer({**cluster.admin.librdkafka, "linger.ms": 0})
    sent: Counter[int] = Counter()

    def send() -> None:
        for partition in range(PARTITIONS):
            for _ in range(chance.randint(1, 5)):
                producer.produce("busy", b"x", partition=partition)
                sent[partition] += 1
        assert producer.flush(WAIT_SECONDS) == 0

    def shares() -> dict[str, int]:
        with group.lock:
            owners = Counter(group.owners.values())
        return {one.name: owners[one.name] for one in members} | owners

    def is_balanced(shares: dict[str, int]) -> bool:
        return sum(shares.values()) == PARTITIONS and max(shares.values()) - min(shares.values()) <= 1

    def member(number: int) -> Member:
        return Member(cluster, group, f"member-{number}", chance.choice(protocols))

    members = [member(0)]
    try:
        for change in range(CHANGES):
            # One change at a time: librdkafka 2.16 says that it owns nothing while it takes an assignment up. A group
            # that changes just then, Kafka's or ours, gives these partitions to others. Who reads has taken it up.
            until(shares, is_balanced, WAIT_SECONDS)
            send()
            until(lambda: len(group.read) >= sent.total(), bool, WAIT_SECONDS)
            send()
            if len(members) > 1 and (len(members) == MEMBERS or chance.random() < 0.5):
                members.pop(chance.randrange(len(members))).stop()
            else:
                members.append(member(change + 1))
        send()
        until(shares, is_balanced, WAIT_SECONDS)
        until(lambda: len(group.read) >= sent.total(), bool, WAIT_SECONDS)
    finally:
        for one in members:
            one.stop()
    assert group.faults == []
    assert [overlap for overlap in group.overlaps if overlap[1] not in group.lost] == []
    assert {place: who for place, who in group.read.items() if len(who) > 1 and not group.lost & set(who)} == {}
    assert set(group.read) == {(p, o) for p in sent for o in range(sent[p])}
