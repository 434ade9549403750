"""Brokers that come, go and restart under a controller in ZooKeeper mode, and what a new controller finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.membership import brokers_seen, controlled_shutdown, take_over
from barnabas.model.features import MetadataVersion
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.register_broker_record import RegisterBrokerRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.core.metadata.clusters import SCHEMA
from tests.core.metadata.metadata_records import a_uuid

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=int(MetadataVersion.IBP_3_9_IV0))


def registered(*brokers: int, epoch: int = 100) -> list[VersionedRecord]:
    return [
        VersionedRecord(RegisterBrokerRecord(broker_id=b, broker_epoch=epoch + b, rack=None, fenced=False), 1)
        for b in brokers
    ]


def a_topic(*partitions: PartitionRecord) -> list[VersionedRecord]:
    for number, record in enumerate(partitions):
        record.partition_id, record.topic_id = number, a_uuid(1)
        record.directories = [a_uuid(0)] * len(record.replicas)
    return [
        VersionedRecord(TopicRecord(name="t", topic_id=a_uuid(1)), 0),
        *(VersionedRecord(record, 1) for record in partitions),
    ]


def a_partition(replicas: list[int], isr: list[int] | None = None, leader: int | None = None) -> PartitionRecord:
    found = replicas if isr is None else isr
    return PartitionRecord(
        replicas=replicas, isr=found, leader=found[0] if leader is None else leader, leader_epoch=4, partition_epoch=2
    )


def image_of(*parts: Iterable[VersionedRecord]) -> MetadataImage:
    return replay(MetadataImage.EMPTY, [VersionedRecord(LEVEL, 0), *(record for part in parts for record in part)])


def after(image: MetadataImage, decision: Decision[Any]) -> MetadataImage:
    return replay(image, decision.records)


def partition(image: MetadataImage, number: int) -> PartitionRegistration:
    found = image.topics.partition("t", number)
    assert found is not None
    return found


def test_who_goes_leads_nothing_any_more() -> None:
    before = image_of(registered(1, 2, 3), a_topic(a_partition([1, 2]), a_partition([2, 1]), a_partition([1])))
    decision = brokers_seen(before, SCHEMA, registered(2, 3))
    assert decision.response == (frozenset(), frozenset({1}))
    now = after(before, decision)
    assert set(now.cluster.brokers) == {2, 3}
    assert (partition(now, 0).leader, partition(now, 0).isr, partition(now, 0).leader_epoch) == (2, (2,), 5)
    assert (partition(now, 1).leader, partition(now, 1).isr, partition(now, 1).leader_epoch) == (2, (2,), 4)
    # The last one in sync is kept in mind, and leads when it comes back.
    assert (partition(now, 2).leader, partition(now, 2).isr) == (-1, (1,))
    back = after(now, brokers_seen(now, SCHEMA, registered(1, 2, 3, epoch=200)))
    assert (partition(back, 2).leader, partition(back, 2).isr, partition(back, 2).leader_epoch) == (1, (1,), 6)
    assert partition(back, 0).leader == 2


def test_a_restart_between_two_looks_is_noticed() -> None:
    before = image_of(registered(1, 2), a_topic(a_partition([1, 2])))
    decision = brokers_seen(before, SCHEMA, [*registered(1, epoch=300), *registered(2)])
    assert decision.response == (frozenset({1}), frozenset({1}))
    now = after(before, decision)
    assert now.cluster.brokers[1].epoch == 301
    assert (partition(now, 0).leader, partition(now, 0).isr) == (2, (2,))


def test_nothing_new_changes_nothing() -> None:
    before = image_of(registered(1, 2), a_topic(a_partition([1, 2])))
    assert brokers_seen(before, SCHEMA, registered(1, 2)).records == ()
    assert take_over(before, SCHEMA).records == ()


def test_a_new_controller_does_what_was_left_undone() -> None:
    made = PartitionRecord(replicas=[2, 9], leader=-1)  # without a state yet
    before = image_of(registered(2, 3), a_topic(a_partition([1, 2]), a_partition([3, 1]), made, a_partition([1])))
    now = after(before, take_over(before, SCHEMA))
    assert (partition(now, 0).leader, partition(now, 0).isr) == (2, (2,))
    assert (partition(now, 1).leader, partition(now, 1).isr) == (3, (3,))
    assert (partition(now, 2).leader, partition(now, 2).isr) == (2, (2,))
    assert (partition(now, 2).leader_epoch, partition(now, 2).partition_epoch) == (0, 0)
    assert (partition(now, 3).leader, partition(now, 3).isr) == (-1, (1,))


def test_who_is_about_to_stop_leads_only_what_nobody_else_can() -> None:
    before = image_of(registered(1, 2), a_topic(
        a_partition([1, 2]), a_partition([2, 1]), a_partition([1]), a_partition([1, 2], isr=[1])
    ))  # fmt: skip
    decision = controlled_shutdown(before, SCHEMA, ControlledShutdownRequest(broker_id=1, broker_epoch=101))
    now = after(before, decision)
    assert (partition(now, 0).leader, partition(now, 0).isr) == (2, (2,))
    assert (partition(now, 1).leader, partition(now, 1).isr) == (2, (2,))
    assert (partition(now, 2).leader, partition(now, 2).leader_epoch) == (1, 4)
    assert [(r.topic_name, r.partition_index) for r in decision.response.remaining_partitions] == [("t", 3)]
    # Asking again changes nothing, and while it is going it is not elected again.
    assert controlled_shutdown(now, SCHEMA, ControlledShutdownRequest(broker_id=1, broker_epoch=-1)).records == ()
    assert not now.cluster.active(1)


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(9, 109, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 5, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_who_is_not_there_or_was_an_earlier_run_is_refused(broker: int, epoch: int, code: ErrorCode) -> None:
    before = image_of(registered(1))
    with pytest.raises(ApiError) as refused:
        controlled_shutdown(before, SCHEMA, ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch))
    assert refused.value.code == code
