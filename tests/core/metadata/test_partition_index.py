"""The index of partitions: it says what a look at every partition would, and spares that look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from barnabas.core.metadata.configs import ConfigsImage
from barnabas.core.metadata.directories import reserved
from barnabas.core.metadata.elections import balance_leaders, elect_unclean
from barnabas.core.metadata.heartbeats import BrokerHeartbeats
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.partition import NO_LEADER, PartitionRegistration
from barnabas.core.metadata.partition_index import PartitionIndex, PlaceId
from barnabas.core.metadata.registrations import fence_stale_broker, process_heartbeat, unregister_broker
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.topics import TopicsImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.uuid import Uuid
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.core.metadata.clusters import FewKeys, a_cluster, a_partition, apply, with_topic
from tests.core.metadata.metadata_records import a_uuid, logs

Found = Mapping[Any, set[PlaceId]]


def looked_up(index: PartitionIndex) -> dict[str, Found]:
    return {
        "leader": {key: set(places) for key, places in index.led_by.items()},
        "isr": {key: set(places) for key, places in index.in_sync_on.items()},
        "elr": {key: set(places) for key, places in index.eligible_on.items()},
        "directory": {key: set(places) for key, places in index.in_directory.items()},
        "flags": {"imbalanced": set(index.imbalanced), "reassigning": set(index.reassigning)},
        "count": {index.count: set()},
    }


def scanned(topics: TopicsImage) -> dict[str, Found]:
    places = [((t.id, n), p) for t in topics.by_id.values() for n, p in t.partitions.items()]

    def by(keys: Callable[[PartitionRegistration], Sequence[Any]]) -> Found:
        found: dict[Any, set[PlaceId]] = {}
        for place, partition in places:
            for key in keys(partition):
                found.setdefault(key, set()).add(place)
        return found

    return {
        "leader": by(lambda p: [p.leader]),
        "isr": by(lambda p: p.isr),
        "elr": by(lambda p: p.elr),
        "directory": by(lambda p: [d for d in p.directories if not reserved(d)]),
        "flags": {
            "imbalanced": {place for place, p in places if p.leader != p.preferred_leader},
            "reassigning": {place for place, p in places if p.reassigning},
        },
        "count": {len(places): set()},
    }


@given(logs())
@settings(max_examples=25, deadline=None)
def test_the_index_says_what_a_scan_says(log: list[Any]) -> None:
    image = MetadataImage.EMPTY
    for record in log:
        image = replay_one(image, record)
        assert looked_up(image.topics.index) == scanned(image.topics)


@given(logs())
@settings(max_examples=40, deadline=None)
def test_many_records_at_once_come_to_the_same_as_one_by_one(log: list[Any]) -> None:
    image = MetadataImage.EMPTY
    for record in log:
        image = replay_one(image, record)
    at_once = replay(MetadataImage.EMPTY, [VersionedRecord(record, 0) for record in log])
    assert at_once == image
    assert looked_up(at_once.topics.index) == scanned(image.topics)


class CountingKeys(FewKeys):
    """Counts how often a decision asks for a key: for each topic looked at, whether it may be led uncleanly."""

    def __init__(self) -> None:
        self.asked = 0

    def topic_value(self, configs: ConfigsImage, overrides: Mapping[str, str], key: str) -> str:
        self.asked += 1
        return super().topic_value(configs, overrides, key)


TOPICS = 400
SILENT = 3
OF_SILENT = 5


@pytest.fixture(scope="module")
def large() -> MetadataImage:
    """400 topics of a partition each, five of them on broker 3, led by it; two led by none."""
    image = a_cluster(1, 2, SILENT, 4, fenced=[4])
    for n in range(TOPICS):
        partition = a_partition([SILENT, 1] if n < OF_SILENT else [1, 2])
        if n in (10, 11):
            partition = a_partition([4, 1], [4], leader=NO_LEADER)
        if n in (20, 21):
            partition = a_partition([1, 2], leader=2)
        image = with_topic(image, f"t{n:03}", partition, n=2000 + n)
    return image


def a_heartbeat(image: MetadataImage, broker: int, **fields: Any) -> BrokerHeartbeatRequest:
    epoch = image.cluster.brokers[broker].epoch
    return BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=2**40, **fields)


def fence(image: MetadataImage, schema: FewKeys) -> Decision[Any]:
    heartbeats = BrokerHeartbeats(10)
    heartbeats.activate(image, 0)
    heartbeats.contacted(1, 101, 1000)
    heartbeats.contacted(2, 102, 1000)
    return fence_stale_broker(image, schema, heartbeats, 1000)


def unfence(image: MetadataImage, schema: FewKeys) -> Decision[Any]:
    return process_heartbeat(image, a_heartbeat(image, 4), schema, BrokerHeartbeats(10))


def shut_down(image: MetadataImage, schema: FewKeys) -> Decision[Any]:
    return process_heartbeat(image, a_heartbeat(image, SILENT, want_shut_down=True), schema, BrokerHeartbeats(10))


def lose_a_directory(image: MetadataImage, schema: FewKeys) -> Decision[Any]:
    beat = a_heartbeat(image, SILENT, offline_log_dirs=[a_uuid(SILENT)])
    return process_heartbeat(image, beat, schema, BrokerHeartbeats(10))


@pytest.mark.parametrize(
    ("decide", "looked_at", "changed"),
    [
        (fence, OF_SILENT, OF_SILENT),
        (unfence, 2, 2),
        (shut_down, OF_SILENT, OF_SILENT),
        (lose_a_directory, OF_SILENT, OF_SILENT),
        (lambda image, schema: unregister_broker(image, schema, SILENT), OF_SILENT, OF_SILENT),
        (lambda image, schema: elect_unclean(image, schema), 2, 0),
        # Preferred leaders are elected whatever the topic allows, so nothing is asked; four are not led by theirs.
        (lambda image, schema: balance_leaders(image, schema), 0, 2),
    ],
)
def test_what_does_not_concern_a_change_is_not_looked_at(
    large: MetadataImage, decide: Callable[[MetadataImage, FewKeys], Decision[Any]], looked_at: int, changed: int
) -> None:
    schema = CountingKeys()
    records = decide(large, schema).records
    assert schema.asked == looked_at
    assert sum(type(r.record).__name__ == "PartitionChangeRecord" for r in records) == changed


def test_an_index_shares_what_has_not_changed(large: MetadataImage) -> None:
    after = apply(large, fence(large, FewKeys()).records)
    assert set(after.topics.index.with_isr_member(SILENT)) == set()
    before, now = large.topics.index, after.topics.index
    assert now.in_sync_on[2] is before.in_sync_on[2]
    assert len(list(now.leaderless())) == 2
    assert {Uuid(place[0]) for place in now.with_directory(a_uuid(SILENT))} == {a_uuid(2000 + n) for n in range(5)}
