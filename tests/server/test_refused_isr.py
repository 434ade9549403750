"""What a leader does when the controller refuses an ISR that it has proposed."""

from __future__ import annotations

from random import Random
from typing import Any

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.core.replication.in_sync import IsrProposal
from barnabas.model.uuid import Uuid
from barnabas.server.replication.partitions import ReplicaEvents
from barnabas.storage.log_config import LogConfig
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.register_broker_record import RegisterBrokerRecord
from barnabas.wire.records.topic_record import TopicRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord
from tests.sim.replication.brokers import DATA, TP, SimBroker
from tests.storage.logs import ManualClock, batch

LEADER, FOLLOWER = 1, 2
TOPIC_ID = Uuid(bytes(15) + b"\x09")


def image() -> MetadataImage:
    """Give a partition whose second replica is not in sync."""
    brokers = [RegisterBrokerRecord(broker_id=n, broker_epoch=n, fenced=False) for n in (LEADER, FOLLOWER)]
    partition = PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[LEADER, FOLLOWER], isr=[LEADER], leader=LEADER, leader_epoch=0,
        partition_epoch=0, directories=[Uuid(bytes(16))] * 2,
    )  # fmt: skip
    records: list[Any] = [*brokers, TopicRecord(name=TP.topic, topic_id=TOPIC_ID), partition]
    return replay(MetadataImage.EMPTY, [VersionedRecord(record, 1) for record in records])


def test_records_wait_no_longer_for_a_follower_that_may_not_join() -> None:
    disk = MemoryFileSystem()
    disk.make_dirs(DATA)
    leader = SimBroker(LEADER, LEADER, disk, ManualClock(), Random(1))
    proposals: list[IsrProposal] = []
    leader.partitions.events = ReplicaEvents(lambda partition, proposal: proposals.append(proposal))
    leader.log_dirs.topic_config = lambda topic: LogConfig.of({})
    leader.publish(image())
    partition = leader.replica
    assert partition is not None
    partition.append(batch(b"first"), 1)
    now = leader.now_ms()
    partition.follower_fetched(FOLLOWER, FOLLOWER, 1, 0, 1, now)
    (proposal,) = proposals
    partition.append(batch(b"second"), 1)
    assert partition.log.high_watermark == 1  # the follower would be in sync, and has not got it
    gone = UnregisterBrokerRecord(broker_id=FOLLOWER, broker_epoch=FOLLOWER)
    leader.publish(replay(image(), [VersionedRecord(gone, 0)]))
    partition.refused(proposal, ErrorCode.INELIGIBLE_REPLICA)
    assert partition.log.high_watermark == 2
