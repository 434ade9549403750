"""Decisions in ZooKeeper mode: which of them brokers hear as a new leader epoch."""

from __future__ import annotations

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition import NO_LEADER_CHANGE
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.epochs import in_new_epochs
from barnabas.model.uuid import Uuid
from barnabas.wire.messages.alter_partition import AlterPartitionResponse
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord

ORDERS = Uuid(bytes(15) + b"\x01")


def image() -> MetadataImage:
    partition = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1, leader_epoch=4, partition_epoch=6
    )
    topic = VersionedRecord(TopicRecord(name="orders", topic_id=ORDERS), 0)
    return replay(MetadataImage.EMPTY, [topic, VersionedRecord(partition, 1)])


def change(**fields: object) -> VersionedRecord:
    return VersionedRecord(PartitionChangeRecord(partition_id=0, topic_id=ORDERS, **fields), 1)  # type: ignore[arg-type]


def leaders(*records: VersionedRecord, response: object = None) -> list[int]:
    return [r.record.leader for r in in_new_epochs(image(), Decision(records, response))]


def test_what_the_controller_decides_by_itself_gets_one() -> None:
    assert leaders(change(isr=[1, 2])) == [1]
    assert leaders(change(replicas=[1, 2, 3, 4], adding_replicas=[4])) == [1]
    after = replay(image(), in_new_epochs(image(), Decision((change(isr=[1, 2]),), None)))
    assert after.topics.by_name["orders"].partitions[0].leader_epoch == 5


def test_what_a_leader_asks_for_keeps_its_epoch_unless_replicas_come_or_go() -> None:
    answer = AlterPartitionResponse()
    assert leaders(change(isr=[1, 2]), response=answer) == [NO_LEADER_CHANGE]
    assert leaders(change(isr=[1, 2], replicas=[1, 2], removing_replicas=[]), response=answer) == [1]


def test_a_leader_that_was_just_elected_stays() -> None:
    assert leaders(change(isr=[2, 3], leader=2), change(isr=[2])) == [2, 2]
