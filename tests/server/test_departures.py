"""Brokers that clients are told of for a while although they are fenced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import VersionedRecord
from barnabas.server.publishers.departures import Departures
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.core.metadata.clusters import a_cluster, apply
from tests.core.metadata.metadata_records import a_uuid

SESSION_MS = 9_000
FENCE, UNFENCE, SHUTTING_DOWN = 1, -1, 1


@dataclass
class Hands:
    now: int = 0

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


class World:
    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.clock = Hands()
        self.departures = Departures(self.clock, SESSION_MS)
        self.publish(a_cluster(1, 2))

    def publish(self, after: MetadataImage) -> None:
        self.departures.publish(difference(self.image, after), after)
        self.image = after

    def change(self, broker: int, *, fenced: int = 0, leaving: int = 0) -> None:
        record = BrokerRegistrationChangeRecord(
            broker_id=broker, broker_epoch=100 + broker, fenced=fenced, in_controlled_shutdown=leaving
        )
        self.publish(apply(self.image, [VersionedRecord(record, 1)]))

    def register(self, broker: int, epoch: int) -> None:
        listener = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
        record = RegisterBrokerRecord(
            broker_id=broker, incarnation_id=a_uuid(epoch), broker_epoch=epoch, end_points=[listener], fenced=True
        )
        self.publish(apply(self.image, [VersionedRecord(record, 0)]))

    def recent(self) -> Sequence[int]:
        return [broker.id for broker in self.departures.recent(self.image)]


def test_who_was_fenced_is_told_of_for_a_sessions_time() -> None:
    world = World()
    assert world.recent() == []
    world.change(1, fenced=FENCE)
    world.clock.now = SESSION_MS - 1
    assert world.recent() == [1]
    world.clock.now = SESSION_MS
    assert world.recent() == []


def test_who_is_back_is_not_told_of_twice() -> None:
    world = World()
    world.change(1, fenced=FENCE)
    world.change(1, fenced=UNFENCE)
    assert world.recent() == []


def test_who_registers_again_is_told_of_until_it_serves_or_takes_too_long() -> None:
    world = World()
    world.change(1, fenced=FENCE)
    world.clock.now = SESSION_MS - 1
    world.register(1, 200)
    world.register(2, 201)
    world.clock.now += SESSION_MS - 1
    assert world.recent() == [1, 2]
    assert [world.image.cluster.brokers[n].epoch for n in world.recent()] == [200, 201]
    world.clock.now += 1
    assert world.recent() == []


def test_who_was_away_for_long_is_told_of_when_it_serves() -> None:
    world = World()
    world.change(1, fenced=FENCE)
    world.clock.now = SESSION_MS
    world.register(1, 200)
    assert world.recent() == []


def test_who_said_that_it_leaves_is_gone_at_once() -> None:
    world = World()
    world.change(1, leaving=SHUTTING_DOWN)
    world.change(1, fenced=FENCE)
    assert world.recent() == []
