"""A group that a real Kafka moves to the consumer protocol and back: the same kinds of records, and we read them so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.core.coordinators.shard import At
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.shard import GroupShard
from barnabas.model.uuid import Uuid
from barnabas.wire.coordinator_records import CoordinatorRecord, decode_group_record
from barnabas.wire.record_batch import decode_batch, iter_headers
from tests.core.groups.consumer.driving import Consumer
from tests.core.groups.migration.driving import Classic, MigrationDriver
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer
GROUP, TOPIC = "moved", "moved-topic"
TIMEOUT_S = 90


def consumer(kafka: RealKafka, **how: str) -> KafkaConsumer:
    made = KafkaConsumer({"bootstrap.servers": kafka.bootstrap(), "group.id": GROUP, "client.id": "c", **how})
    made.subscribe([TOPIC])
    return made


def test_kafka_writes_the_same_and_we_read_what_it_wrote(real_kafka: RealKafka) -> None:
    admin = AdminClient({"bootstrap.servers": real_kafka.bootstrap()})
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
    old = consumer(real_kafka, **{"partition.assignment.strategy": "range"})
    try:
        share(4, old)
        new = consumer(real_kafka, **{"group.protocol": "consumer"})
        try:
            share(2, old, new)
        finally:
            new.close()
        share(4, old)
    finally:
        old.close()
    theirs = list(written(real_kafka.log_dir))
    ours = our_records()
    assert moves(theirs) == moves(ours)
    check_replay(theirs)


def share(each: int, *consumers: KafkaConsumer) -> None:
    """Let them be members until each has so many partitions."""
    until = time.monotonic() + TIMEOUT_S
    while any(len(one.assignment()) != each for one in consumers):
        assert time.monotonic() < until, [one.assignment() for one in consumers]
        for one in consumers:
            one.poll(0.1)


def written(folder: Path) -> Iterator[CoordinatorRecord]:
    """Give what stands of the group in the partition of `__consumer_offsets` that has it."""
    for segment in sorted(folder.glob("__consumer_offsets-*/*.log")):
        data = segment.read_bytes()
        for pos, header in iter_headers(data, partial_tail=True):
            for record in [] if header.is_control else decode_batch(data, pos):
                decoded = decode_group_record(record.key or b"", record.value)
                if isinstance(decoded, CoordinatorRecord) and about(decoded) == GROUP:
                    yield decoded


def about(record: CoordinatorRecord) -> str:
    key = record.key
    return str(getattr(key, "group_id", None) or getattr(key, "group", None))


def our_records() -> list[CoordinatorRecord]:
    """Live the same life with a shard of ours."""
    d = MigrationDriver()
    d.cluster.create(TOPIC, 4)
    old, new = Classic(GROUP, topics=[TOPIC]), Consumer("new", GROUP, names=[TOPIC])
    d.settle_classic(old)
    for _ in range(12):
        d.advance(1_000)
        d.beat(new)
        d.move(old)
    d.away(new)
    d.settle_classic(old)
    return d.records


def moves(records: list[CoordinatorRecord]) -> tuple[list[str], list[str]]:
    """Give the kinds of the records of the upgrade, with those of the first step after it, and of the downgrade."""
    kinds = [kind(r) for r in records]
    up = kinds.index("GroupMetadata-")
    down = kinds.index("CurrentMemberAssignment-")
    return kinds[up : up + 12], kinds[down : down + 10]


def kind(record: CoordinatorRecord) -> str:
    name = type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    return name + ("-" if record.value is None else "")


def check_replay(records: list[CoordinatorRecord]) -> None:
    """See each group come to be where the other ends, with what Kafka says of it."""
    up = [kind(r) for r in records].index("GroupMetadata-")
    down = [kind(r) for r in records].index("CurrentMemberAssignment-")
    shard = GroupShard(GroupConfig(), lambda: Uuid(bytes(16)))
    for offset, record in enumerate(records):
        if offset == up:
            classic = shard.image.groups[GROUP]
        if offset == up + 6:
            upgraded = shard.image.consumers[GROUP]
            assert set(upgraded.members) == set(classic.members)
            (member,) = upgraded.members.values()
            assert upgraded.epoch == upgraded.assignment_epoch == member.epoch == classic.generation
            assert upgraded.assignment_ms == 0
            assert sorted(p for mine in member.assigned.values() for p in mine) == [0, 1, 2, 3]
            assert upgraded.asked.classic_members == 1
        if offset == down:
            group = shard.image.consumers[GROUP]
            assert (len(group.members), group.asked.classic_members) == (2, 1)
        shard.replay(record, At(offset))
        if offset == down + 9:
            downgraded = shard.image.groups[GROUP]
            assert GROUP not in shard.image.consumers
            assert (downgraded.generation, downgraded.state.value) == (group.epoch, "Stable")
            assert list(downgraded.members) == [m for m in group.members if group.members[m].uses_classic]
