"""The world of the simulation: brokers that crash, a controller that decides as ours does, and messages that get lost.

Time jumps from event to event. After every event the invariants hold; at the end everything heals, and then all
replicas must be equal and in sync.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

from barnabas.core.metadata.elections import with_broker, without_broker
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.partition_requests import alter_partition
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.core.replicated import VersionedRecord
from barnabas.core.replication.in_sync import Granted, IsrProposal
from barnabas.server.replication.follower_fetch import FollowerReading
from barnabas.server.replication.isr_changes import asked
from barnabas.server.replication.partition import Partition
from barnabas.storage.log import LogAppendInfo
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, RequestTopicData
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.records.fence_broker_record import FenceBrokerRecord
from barnabas.wire.records.register_broker_record import RegisterBrokerRecord
from barnabas.wire.records.unfence_broker_record import UnfenceBrokerRecord
from tests.core.metadata.clusters import SCHEMA, a_cluster, a_partition, with_topic
from tests.core.metadata.metadata_records import a_uuid
from tests.sim.replication.brokers import FETCH_VERSION, LAG_MS, SimBroker, on_the_wire
from tests.storage.logs import ManualClock, batch, read_all

BROKERS = (1, 2, 3)
TOPIC = a_uuid(900)
SESSION_MS = 300
MAX_WAIT_MS = 100


class World:
    """One run. `step` does the next event and checks what must always hold."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clock = ManualClock()
        self.power = self.rng.random() < 0.5
        """Whether a crash loses what was not flushed; else processes are killed, and the page cache stays."""
        self.loss = self.rng.choice([0.0, 0.02, 0.2])
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._epochs = itertools.count(1_000)
        self.image = with_topic(a_cluster(*BROKERS), "t", a_partition(BROKERS))
        self.disks = {n: MemoryFileSystem(self.clock.now_ms) for n in BROKERS}
        self.alive: dict[int, SimBroker] = {}
        self.waiting: list[tuple[SimBroker, Partition, int, LogAppendInfo, bytes]] = []
        self.acked: dict[int, bytes] = {}
        self.marks: dict[tuple[int, int, int], int] = {}
        self.healing = False
        self.producing = True
        self._written = itertools.count()
        self._fetching: set[tuple[int, int]] = set()
        """(epoch of a broker's process, leader) of the fetchers that run."""
        self._delivered: dict[int, int] = {}
        for n in BROKERS:
            self._start(n, 100 + n)
        for n in BROKERS:
            self._tell(n, self.image)
        self._later(1, self._produce)
        self._later(500, self._trouble)

    # --- time and messages

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.ms + delay_ms, next(self._order), action))

    def _send(self, action: Callable[[], None], lost: Callable[[], None]) -> None:
        """Deliver soon; or never, of which the sender learns after a while."""
        if not self.healing and self.rng.random() < self.loss:
            self._later(200, lost)
        else:
            slow = self.rng.random() < 0.05
            self._later(self.rng.randrange(50, 300) if slow else self.rng.randrange(0, 8), action)

    def step(self) -> None:
        self.clock.ms, _, action = heapq.heappop(self._events)
        action()
        self._acknowledge()
        self._check_marks()

    def run(self, events: int) -> None:
        for n in range(events):
            self.step()
            if n % 40 == 0:
                self.check()

    def heal(self) -> None:
        """End all trouble, and give everybody time."""
        self.healing = True
        for n in BROKERS:
            if n not in self.alive:
                self._restart(n)
        self._until(self.clock.ms + 2 * LAG_MS)
        self.producing = False
        self._until(self.clock.ms + 2 * LAG_MS)
        self.check()
        registration = self.registration
        assert set(registration.isr) == set(BROKERS), registration
        logs = {n: self._records(n) for n in BROKERS}
        assert logs[1] == logs[2] == logs[3]
        ends = {(r.log.high_watermark, r.log.log_end_offset) for b in self.alive.values() if (r := b.replica)}
        assert len(ends) == 1, ends
        assert len(set(ends.pop())) == 1

    def _until(self, end_ms: int) -> None:
        while self.clock.ms < end_ms:
            self.step()

    # --- the controller

    @property
    def registration(self) -> PartitionRegistration:
        found = self.image.topics.partition("t", 0)
        assert found is not None
        return found

    def _commit(self, records: list[VersionedRecord]) -> None:
        if records:
            self.image = replay(self.image, records).at(self.image.offset_epoch.offset + len(records), 1)
            for n in self.alive:
                self._tell(n, self.image)

    def _tell(self, n: int, image: MetadataImage) -> None:
        broker = self.alive[n]

        def publish() -> None:
            offset = image.offset_epoch.offset
            if self.alive.get(n) is broker and offset > self._delivered.get(n, -1):
                self._delivered[n] = offset
                broker.publish(image)
                self._follow(broker)

        self._later(self.rng.randrange(0, 30), publish)

    def _alter(self, broker: SimBroker, partition: Partition, proposal: IsrProposal) -> None:
        request = AlterPartitionRequest(
            broker_id=broker.node_id,
            broker_epoch=broker.epoch,
            topics=[RequestTopicData(topic_id=TOPIC, partitions=[asked(0, proposal)])],
        )

        def decide() -> None:
            try:
                decision = alter_partition(self.image, request, SCHEMA, version=3)
            except ApiError:
                return  # another registration of that broker: this process is gone
            self._commit(list(decision.records))
            answer = decision.response.topics[0].partitions[0]
            self._send(lambda: tell(answer.error_code), again)
            answers.append(Granted(tuple(answer.isr), answer.leader_epoch, answer.partition_epoch))

        answers: list[Granted] = []

        def tell(error: int) -> None:
            if self.alive.get(broker.node_id) is not broker:
                return
            if error:
                partition.refused(proposal, ErrorCode(error))
            else:
                partition.granted(proposal, answers[0])

        def again() -> None:
            if self.alive.get(broker.node_id) is broker:
                self._alter(broker, partition, proposal)

        self._send(decide, again)

    # --- brokers come and go

    def _start(self, n: int, epoch: int) -> None:
        broker = SimBroker(n, epoch, self.disks[n], self.clock, self.rng)
        broker.partitions.events.propose = lambda partition, proposal: self._alter(broker, partition, proposal)
        self.alive[n] = broker
        self._delivered[n] = -1

        def shrink() -> None:
            if self.alive.get(n) is broker:
                broker.partitions.shrink_isrs()
                self._later(LAG_MS // 2, shrink)

        def background() -> None:
            if self.alive.get(n) is broker:
                if self.rng.random() < 0.3:
                    broker.log_dirs.checkpoint_pass()
                if (replica := broker.replica) is not None and self.rng.random() < 0.3:
                    replica.log.flush()
                self._later(self.rng.randrange(20, 200), background)

        self._later(LAG_MS // 2, shrink)
        self._later(50, background)

    def _crash(self, n: int) -> None:
        broker = self.alive.pop(n)
        broker.log_dirs.release()
        if self.power:
            self.disks[n].crash(self.rng)
        self._later(SESSION_MS, lambda: self._fence(n, broker.epoch))

    def _fence(self, n: int, epoch: int) -> None:
        found = self.image.cluster.brokers[n]
        if found.epoch == epoch and not found.fenced:
            gone = without_broker(self.image, SCHEMA, n)
            self._commit([*gone, VersionedRecord(FenceBrokerRecord(id=n, epoch=epoch), 0)])

    def _restart(self, n: int) -> None:
        epoch = next(self._epochs)
        before = self.image.cluster.brokers[n]
        self._commit(without_broker(self.image, SCHEMA, n))
        registered = RegisterBrokerRecord(
            broker_id=n, incarnation_id=a_uuid(epoch), broker_epoch=epoch, fenced=True, log_dirs=[a_uuid(n)]
        )
        assert before.epoch < epoch
        self._start(n, epoch)
        self._commit([VersionedRecord(registered, 3)])
        self._later(self.rng.randrange(20, 200), lambda: self._unfence(n, epoch))

    def _unfence(self, n: int, epoch: int) -> None:
        if self.image.cluster.brokers[n].epoch == epoch:
            unfence = VersionedRecord(UnfenceBrokerRecord(id=n, epoch=epoch), 0)
            self._commit([unfence, *with_broker(replay_one(self.image, unfence.record), SCHEMA, n)])

    def _trouble(self) -> None:
        if self.healing:
            return
        n = self.rng.choice(BROKERS)
        if n not in self.alive:
            self._restart(n)
        elif self._may_crash(n):
            self._crash(n)
        self._later(self.rng.randrange(50, 1_500), self._trouble)

    def _may_crash(self, n: int) -> bool:
        """Say whether Kafka promises that nothing is lost: while one that is in sync has not lost its memory."""
        if not self.power:
            return True
        return any(b in self.alive for b in self.registration.isr if b != n)

    # --- producing

    def _produce(self) -> None:
        if not self.producing:
            return
        self._later(self.rng.randrange(1, 40) if not self.healing else 60, self._produce)
        broker = self.alive.get(self.rng.choice(BROKERS))
        partition = broker.replica if broker is not None else None
        if broker is None or partition is None or not partition.is_leader:
            return
        value = b"%06d" % next(self._written)
        try:
            info = partition.append(batch(value, value), -1)
        except ApiError:
            return
        self.waiting.append((broker, partition, partition.leader_epoch, info, value))

    def _acknowledge(self) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            broker, partition, epoch, info, value = one
            if self.alive.get(broker.node_id) is not broker or partition.leader_epoch != epoch:
                continue
            if partition.is_leader and partition.is_committed(info):
                self.acked[info.first_offset] = value
            elif partition.is_leader:
                self.waiting.append(one)

    # --- following

    def _follow(self, broker: SimBroker) -> None:
        for leader in list(broker.followed):
            if (broker.epoch, leader) not in self._fetching:
                self._fetching.add((broker.epoch, leader))
                self._later(0, lambda leader=leader: self._round(broker, leader))  # type: ignore[misc]

    def _round(self, broker: SimBroker, leader_id: int) -> None:
        """Fetch once, and again, for as long as the follower lives."""
        if self.alive.get(broker.node_id) is not broker:
            self._fetching.discard((broker.epoch, leader_id))
            return
        followed = broker.followed[leader_id]
        ask = followed.next()

        def again(delay_ms: int) -> None:
            self._later(delay_ms, lambda: self._round(broker, leader_id))

        if ask is None:
            again(20)
            return
        request = followed.request(ask, FETCH_VERSION)

        def lost() -> None:
            followed.unanswered()
            again(25)

        def received(response: FetchResponse) -> None:
            if self.alive.get(broker.node_id) is not broker:
                again(0)
                return
            outside = followed.take(ask, on_the_wire(response))
            assert not outside, "nothing is deleted here, and nobody is elected uncleanly"
            again(0)

        def serve() -> None:
            leader = self.alive.get(leader_id)
            if leader is None:
                lost()
                return
            reading = leader.serve(request, broker.node_id, broker.epoch)
            if isinstance(reading, FetchResponse):
                response = reading
                self._send(lambda: received(response), lost)
                return
            self._serve(leader, reading, received, lost)

        self._send(serve, lost)

    def _serve(
        self, leader: SimBroker, reading: FollowerReading, received: Callable[[FetchResponse], None],
        lost: Callable[[], None],
    ) -> None:  # fmt: skip
        answers = reading.read()
        if reading.enough:
            response = reading.finish(answers)
            self._send(lambda: received(response), lost)
            return
        over = False

        def finish() -> None:
            nonlocal over
            if over:
                return
            over = True
            reading.unwatch()
            if self.alive.get(leader.node_id) is not leader:
                lost()
                return
            response = reading.finish(reading.read())
            self._send(lambda: received(response), lost)

        reading.begin(lambda: self._later(0, finish))
        self._later(MAX_WAIT_MS, finish)

    # --- what must hold

    def _check_marks(self) -> None:
        """No leader's high watermark goes back within its epoch."""
        for broker in self.alive.values():
            replica = broker.replica
            if replica is not None and replica.is_leader:
                key = (broker.node_id, broker.epoch, replica.leader_epoch)
                assert replica.log.high_watermark >= self.marks.get(key, 0), (key, self.marks[key])
                self.marks[key] = replica.log.high_watermark

    def _records(self, n: int) -> list[tuple[int, bytes | None]]:
        replica = self.alive[n].replica
        return [] if replica is None else [(r.offset, r.value) for r in read_all(replica.log)]

    def check(self) -> None:
        """Acknowledged records are at the leader; replicas agree as far as both know it to be committed."""
        logs = {n: dict(self._records(n)) for n in self.alive}
        registration = self.registration
        leader = self.alive.get(registration.leader)
        replica = leader.replica if leader is not None else None
        if replica is not None and replica.is_leader and replica.leader_epoch == registration.leader_epoch:
            held = logs[registration.leader]
            missing = {o: v for o, v in self.acked.items() if held.get(o) != v}
            assert not missing, missing
        marks = {n: r.log.high_watermark for n, b in self.alive.items() if (r := b.replica)}
        for a, b in itertools.combinations(marks, 2):
            common = min(marks[a], marks[b])
            assert [logs[a].get(o) for o in range(common)] == [logs[b].get(o) for o in range(common)], (a, b, common)
