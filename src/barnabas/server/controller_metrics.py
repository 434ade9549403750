"""What a controller, active or standing by, shows under Kafka's MBean names.

Counts of topics, partitions and brokers are read off the committed image, which keeps them, when somebody looks;
elections are counted as deltas bring them. Nothing here goes through all partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.heartbeats import BrokerHeartbeats
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.metrics import Meter, Metrics, mbean
from barnabas.server.loop_metrics import IdleRatio
from barnabas.server.metadata_metrics import AppliedMetadata

UNREGISTERED: Final = -1
FENCED: Final = 10
CONTROLLED_SHUTDOWN: Final = 20
ACTIVE: Final = 30
"""Values of BrokerRegistrationState (KIP-1131)."""
NS_A_MS: Final = 1e6


class DecidingController(AppliedMetadata, Protocol):
    """What is asked of the node's controller."""

    @property
    def is_active(self) -> bool:
        """Whether it takes writes."""
        ...

    @property
    def last_committed_offset(self) -> int:
        """The offset of the last committed record, one inside an unfinished transaction included."""
        ...


class ControllerMetrics:
    """Publishes gauges when made; a publisher; and told of what no record says: `decided`, `new_leader`."""

    def __init__(self, registry: Metrics, controller: DecidingController, heartbeats: BrokerHeartbeats) -> None:
        self._registry = registry
        self._controller = controller
        self._heartbeats = heartbeats
        self._brokers: set[int] = set()
        self._decisions = 0
        self._idle = IdleRatio()
        self._leaders = 0
        events = "ControllerEventManager"
        self._queued = registry.histogram(mbean("kafka.controller", type=events, name="EventQueueTimeMs"))
        self._took = registry.histogram(mbean("kafka.controller", type=events, name="EventQueueProcessingTimeMs"))
        registry.gauge(mbean("kafka.controller", type=events, name="AvgIdleRatio"), self._idle.look)
        self._unclean = unclean_elections(registry)
        self._from_elr = _elections(registry, "ElectionFromEligibleLeaderReplicasPerSec")
        self._publish_state()
        self._publish_metadata()

    def _gauge(self, name: str, read: Callable[[], int]) -> None:
        self._registry.gauge(mbean("kafka.controller", type="KafkaController", name=name), read)

    def _publish_state(self) -> None:
        controller, clock, gauge = self._controller, self._registry.clock, self._gauge
        gauge("ActiveControllerCount", lambda: int(controller.is_active))
        gauge("NewActiveControllersCount", lambda: self._leaders)
        gauge("LastAppliedRecordOffset", lambda: controller.committed_image.offset_epoch.offset)
        gauge("LastCommittedRecordOffset", lambda: controller.last_committed_offset)
        gauge("LastAppliedRecordTimestamp", lambda: controller.last_timestamp_ms)
        gauge("LastAppliedRecordLagMs", lambda: clock.now_ms() - controller.last_timestamp_ms)
        gauge("MetadataErrorCount", lambda: controller.errors)
        gauge("IgnoredStaticVoters", lambda: int(controller.ignores_static_voters))
        gauge("EventQueueOperationsStartedCount", lambda: self._decisions)
        # A decision is taken in the turn of the loop that asks for it: none can time out before.
        gauge("EventQueueOperationsTimedOutCount", lambda: 0)
        gauge("TimedOutBrokerHeartbeatCount", lambda: 0)

    def _publish_metadata(self) -> None:
        def controlled_shutdowns() -> int:
            brokers = self._controller.committed_image.cluster.brokers.values()
            return sum(broker.in_controlled_shutdown for broker in brokers)

        publish_counts(self._registry, lambda: self._controller.committed_image)
        self._gauge("ControlledShutdownBrokerCount", controlled_shutdowns)

    def decided(self, took_ms: float) -> None:
        """Count a decision, and how long it and its append took."""
        self._decisions += 1
        self._queued.update(0)
        self._took.update(took_ms)
        self._idle.worked(took_ms * NS_A_MS)

    def new_leader(self) -> None:
        """Count that the quorum has a leader again, here or elsewhere."""
        self._leaders += 1

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Count the elections of a delta, and have gauges for each broker that is registered now."""
        if delta.unclean_elections:
            self._unclean.mark(delta.unclean_elections)
        if delta.elr_elections:
            self._from_elr.mark(delta.elr_elections)
        for broker in delta.brokers:
            if broker in image.cluster.brokers and broker not in self._brokers:
                self._publish_broker(broker)
            elif broker not in image.cluster.brokers and broker in self._brokers:
                self._forget_broker(broker)

    def _publish_broker(self, broker: int) -> None:
        self._brokers.add(broker)
        self._registry.gauge(_of_broker("BrokerRegistrationState", broker), lambda: self._state(broker))
        self._registry.gauge(_of_broker("TimeSinceLastHeartbeatReceivedMs", broker), lambda: self._silent_ms(broker))

    def _forget_broker(self, broker: int) -> None:
        self._brokers.discard(broker)
        self._registry.remove(_of_broker("BrokerRegistrationState", broker))
        self._registry.remove(_of_broker("TimeSinceLastHeartbeatReceivedMs", broker))

    def _state(self, broker: int) -> int:
        registration = self._controller.committed_image.cluster.brokers.get(broker)
        if registration is None:
            return UNREGISTERED
        if registration.fenced:
            return FENCED
        return CONTROLLED_SHUTDOWN if registration.in_controlled_shutdown else ACTIVE

    def _silent_ms(self, broker: int) -> int:
        """Give how long the active controller has not heard of a broker, at most a session's time, as Kafka does."""
        limit = self._heartbeats.session_ms
        registration = self._controller.committed_image.cluster.brokers.get(broker)
        if registration is None or not self._controller.is_active:
            return limit
        at = self._heartbeats.last_contact_ms(broker, registration.epoch)
        return limit if at is None else min(limit, self._registry.clock.monotonic_ms() - at)


def publish_counts(registry: Metrics, image: Callable[[], MetadataImage]) -> None:
    """Publish how many topics, partitions and brokers there are. image: what to count when somebody looks."""

    def count(name: str, read: Callable[[MetadataImage], int]) -> None:
        registry.gauge(mbean("kafka.controller", type="KafkaController", name=name), lambda: read(image()))

    count("GlobalTopicCount", lambda image: len(image.topics.by_id))
    count("GlobalPartitionCount", lambda image: image.topics.index.count)
    count("OfflinePartitionsCount", lambda image: image.topics.index.offline_count)
    count("PreferredReplicaImbalanceCount", lambda image: len(image.topics.index.imbalanced))
    count("ActiveBrokerCount", lambda image: sum(not broker.fenced for broker in image.cluster.brokers.values()))
    count("FencedBrokerCount", lambda image: sum(broker.fenced for broker in image.cluster.brokers.values()))


def unclean_elections(registry: Metrics) -> Meter:
    """Give what counts leaders that were not in sync when they were elected."""
    return _elections(registry, "UncleanLeaderElectionsPerSec")


def _elections(registry: Metrics, name: str) -> Meter:
    return registry.meter(mbean("kafka.controller", type="ControllerStats", name=name), "elections")


def _of_broker(name: str, broker: int) -> str:
    return mbean("kafka.controller", type="KafkaController", name=name, broker=str(broker))
