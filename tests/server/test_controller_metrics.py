"""What a controller shows: as much as the metadata says, and no more work than a look."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from barnabas.core.metadata.delta import DeltaBuilder
from barnabas.core.metadata.elections import elect_leaders
from barnabas.core.metadata.heartbeats import BrokerHeartbeats
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.registrations import unregister_broker
from barnabas.core.replicated import VersionedRecord
from barnabas.model.metrics import Metrics
from barnabas.server.controller_metrics import ControllerMetrics
from barnabas.server.metadata_metrics import LoadMeasures, MetadataMetrics
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from tests.core.metadata.clusters import SCHEMA, a_cluster, a_partition, with_topic
from tests.core.metadata.metadata_records import a_uuid

NODE = "kafka.controller:type=KafkaController,name="
STATS = "kafka.controller:type=ControllerStats,name="
LOADER = "kafka.server:type=MetadataLoader,name="


@dataclass
class AClock:
    now: int = 10_000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.now

    def monotonic_ms(self) -> int:
        return self.now


@dataclass
class AController:
    """A controller's view of the metadata, moved by hand."""

    committed_image: MetadataImage
    metrics: list[ControllerMetrics | MetadataMetrics] = field(default_factory=list)
    is_active: bool = True
    last_timestamp_ms: int = 1_700_000_009_000
    snapshots_loaded: int = 1
    errors: int = 0
    measures: LoadMeasures = field(default_factory=LoadMeasures)
    ignores_static_voters: bool = False

    @property
    def last_committed_offset(self) -> int:
        return self.committed_image.offset_epoch.offset + 2

    def take(self, *records: object) -> None:
        """Commit records and publish them."""
        builder = DeltaBuilder(self.committed_image)
        for record in records:
            builder.replay(record)
        delta = builder.build(self.committed_image.offset_epoch.offset + len(records), 1)
        self.committed_image = delta.after
        for one in self.metrics:
            one.publish(delta, delta.after)


@dataclass
class World:
    clock: AClock
    registry: Metrics
    controller: AController
    heartbeats: BrokerHeartbeats

    def of(self, prefix: str) -> dict[str, float | str]:
        """Give what is shown under names that begin so: the rest of the name, and the value or the count."""
        found = {name.removeprefix(prefix): values for name, values in self.registry.values(prefix + "*")}
        return {name: values.get("Value", values.get("Count", "?")) for name, values in found.items()}


@pytest.fixture
def world() -> World:
    clock = AClock()
    registry = Metrics(clock)
    image = with_topic(
        a_cluster(1, 2, 3, fenced=[3], elr=True), "t", a_partition([1, 2], leader=2), a_partition([3, 1], [], leader=-1)
    )
    controller = AController(image)
    heartbeats = BrokerHeartbeats(9000)
    controller.metrics = [
        ControllerMetrics(registry, controller, heartbeats),
        MetadataMetrics(registry, controller, lambda: 3000, is_broker=True),
    ]
    return World(clock, registry, controller, heartbeats)


def test_counts_are_those_of_the_metadata(world: World) -> None:
    shown = world.of(NODE)
    assert shown == {
        "ActiveControllerCount": 1,
        "ActiveBrokerCount": 2,
        "FencedBrokerCount": 1,
        "ControlledShutdownBrokerCount": 0,
        "GlobalTopicCount": 1,
        "GlobalPartitionCount": 2,
        "OfflinePartitionsCount": 1,
        "PreferredReplicaImbalanceCount": 2,
        "MetadataErrorCount": 0,
        "IgnoredStaticVoters": 0,
        "LastAppliedRecordOffset": 1000,
        "LastCommittedRecordOffset": 1002,
        "LastAppliedRecordTimestamp": 1_700_000_009_000,
        "LastAppliedRecordLagMs": 1000,
        "NewActiveControllersCount": 0,
        "EventQueueOperationsStartedCount": 0,
        "EventQueueOperationsTimedOutCount": 0,
        "TimedOutBrokerHeartbeatCount": 0,
    }
    request = ElectLeadersRequest(election_type=0, topic_partitions=None)
    records = elect_leaders(world.controller.committed_image, request, SCHEMA).records
    world.controller.take(*(r.record for r in records))
    assert world.of(NODE)["PreferredReplicaImbalanceCount"] == 1
    world.controller.is_active = False
    assert world.of(NODE)["ActiveControllerCount"] == 0


def test_elections_out_of_sync_are_counted_apart(world: World) -> None:
    def change(record: PartitionChangeRecord) -> None:
        record.topic_id, record.partition_id = a_uuid(900), 1
        world.controller.take(record)

    change(PartitionChangeRecord(eligible_leader_replicas=[3, 1]))
    change(PartitionChangeRecord(leader=1, isr=[1], eligible_leader_replicas=[3]))
    assert world.of(STATS) == {"UncleanLeaderElectionsPerSec": 0, "ElectionFromEligibleLeaderReplicasPerSec": 1}
    change(PartitionChangeRecord(leader=2, isr=[2], leader_recovery_state=1))
    assert world.of(STATS) == {"UncleanLeaderElectionsPerSec": 1, "ElectionFromEligibleLeaderReplicasPerSec": 1}


def test_each_broker_has_its_state_and_its_silence(world: World) -> None:
    def told(broker: int) -> tuple[object, object]:
        shown = world.of(NODE)
        return (
            shown.get(f"BrokerRegistrationState,broker={broker}"),
            shown.get(f"TimeSinceLastHeartbeatReceivedMs,broker={broker}"),
        )

    assert told(1) == (None, None), "nothing was said of it yet"
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1)
    world.controller.take(change, BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=103))
    assert told(1) == (20, 9000)
    assert told(3) == (10, 9000)
    world.heartbeats.contacted(1, 101, world.clock.now)
    world.clock.now += 700
    assert told(1) == (20, 700)
    world.clock.now += 60_000
    assert told(1) == (20, 9000)
    gone: list[VersionedRecord] = list(unregister_broker(world.controller.committed_image, SCHEMA, 1).records)
    world.controller.take(*(r.record for r in gone))
    assert told(1) == (None, None)


def test_decisions_and_leaders_are_counted(world: World) -> None:
    metrics = world.controller.metrics[0]
    assert isinstance(metrics, ControllerMetrics)
    metrics.decided(3.5)
    metrics.new_leader()
    assert world.of(NODE)["EventQueueOperationsStartedCount"] == 1
    assert world.of(NODE)["NewActiveControllersCount"] == 1
    [(_, took)] = world.registry.values("*EventQueueProcessingTimeMs")
    assert (took["Count"], took["Max"]) == (1, 3.5)


def test_levels_and_progress_are_shown_on_every_node(world: World) -> None:
    world.controller.take(FeatureLevelRecord(name="metadata.version", feature_level=30))
    assert world.of(LOADER) == {
        "AvgIdleRatio": 1.0,
        "CurrentMetadataVersion": 30,
        "CurrentControllerId": 3000,
        "HandleLoadSnapshotCount": 1,
        "FinalizedLevel,featureName=metadataVersion": 30,
        "FinalizedLevel,featureName=eligibleLeaderReplicasVersion": 1,
    }
    world.controller.take(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))
    assert "FinalizedLevel,featureName=eligibleLeaderReplicasVersion" not in world.of(LOADER)
    [(_, broker)] = world.registry.values("kafka.server:type=broker-metadata-metrics")
    assert broker == {
        "last-applied-record-offset": 1002,
        "last-applied-record-timestamp": 1_700_000_009_000,
        "last-applied-record-lag-ms": 1000,
        "metadata-load-error-count": 0,
        "ignored-static-voters": 0,
    }
    [(_, levels)] = world.registry.values("kafka.server:type=node-metrics,feature-name=metadata-version")
    assert levels == {"minimum-supported-level": 7, "maximum-supported-level": 30}
