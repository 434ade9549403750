"""How far a node has read the metadata, under Kafka's MBean names; every node has it (KIP-835, KIP-1160)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.features import MINIMUM_METADATA_VERSION, SUPPORTED_FEATURES
from barnabas.model.metrics import Histogram, Metrics, mbean
from barnabas.server.loop_metrics import IdleRatio

NO_LEADER: Final = -1


class AppliedMetadata(Protocol):
    """What is asked of the node's replica of the metadata log."""

    @property
    def committed_image(self) -> MetadataImage:
        """The metadata that is committed and published."""
        ...

    @property
    def last_timestamp_ms(self) -> int:
        """The timestamp of the last record that was applied."""
        ...

    @property
    def snapshots_loaded(self) -> int:
        """How many snapshots were taken over."""
        ...

    @property
    def errors(self) -> int:
        """How often the metadata could not be read or applied."""
        ...

    @property
    def measures(self) -> LoadMeasures:
        """What was measured while it was read."""
        ...

    @property
    def ignores_static_voters(self) -> bool:
        """Whether `controller.quorum.voters` is set and without effect."""
        ...


class LoadMeasures:
    """How much metadata comes, and how long it takes to take it up. idle: how much of the time nothing was taken up."""

    __slots__ = ("idle", "sizes", "times")

    def __init__(self) -> None:
        self.idle = IdleRatio()
        self.sizes = Histogram()
        self.times = Histogram()

    def batch(self, records: int, took_ns: int) -> None:
        """Take in a batch of the metadata log that was decoded and applied."""
        self.sizes.update(records)
        self.times.update(took_ns / 1000)


class MetadataMetrics:
    """Publishes gauges when made; a publisher, since a feature has a gauge from when it is first finalized."""

    def __init__(
        self, registry: Metrics, replica: AppliedMetadata, leader_id: Callable[[], int | None], *, is_broker: bool
    ) -> None:
        """leader_id: who leads the metadata quorum, None when nobody is known to."""
        self._registry = registry
        self._replica = replica
        self._finalized: set[str] = set()

        def loader(name: str, read: Callable[[], int]) -> None:
            registry.gauge(mbean("kafka.server", type="MetadataLoader", name=name), read)

        def controller_id() -> int:
            found = leader_id()
            return NO_LEADER if found is None else found

        registry.gauge(mbean("kafka.server", type="MetadataLoader", name="AvgIdleRatio"), replica.measures.idle.look)
        loader("CurrentMetadataVersion", self._metadata_version)
        loader("CurrentControllerId", controller_id)
        loader("HandleLoadSnapshotCount", lambda: replica.snapshots_loaded)
        for feature, (lowest, highest) in SUPPORTED_FEATURES.items():
            name = mbean("kafka.server", **{"type": "node-metrics", "feature-name": feature.replace(".", "-")})
            registry.gauge(name, lambda level=lowest: level, "minimum-supported-level")  # type: ignore[misc]
            registry.gauge(name, lambda level=highest: level, "maximum-supported-level")  # type: ignore[misc]
        if is_broker:
            self._publish_broker(registry)

    def _publish_broker(self, registry: Metrics) -> None:
        replica = self._replica
        name = mbean("kafka.server", type="broker-metadata-metrics")
        registry.gauge(name, lambda: replica.committed_image.offset_epoch.offset, "last-applied-record-offset")
        registry.gauge(name, lambda: replica.last_timestamp_ms, "last-applied-record-timestamp")
        registry.gauge(name, lambda: registry.clock.now_ms() - replica.last_timestamp_ms, "last-applied-record-lag-ms")
        registry.gauge(name, lambda: replica.errors, "metadata-load-error-count")
        registry.gauge(name, lambda: int(replica.ignores_static_voters), "ignored-static-voters")
        for last, measured in (
            ("MetadataBatchSizes", replica.measures.sizes), ("MetadataBatchProcessingTimeUs", replica.measures.times)
        ):  # fmt: skip
            registry.bean(mbean("kafka.server", type="BrokerMetadataListener", name=last), measured.attributes)

    def _metadata_version(self) -> int:
        version = self._replica.committed_image.features.metadata_version
        return int(MINIMUM_METADATA_VERSION) if version is None else version

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Publish the levels of features that are finalized now, and forget those that are no longer."""
        if not delta.features and not delta.snapshot:
            return
        finalized = set(image.features.finalized)
        for gone in self._finalized - finalized:
            self._registry.remove(_level_name(gone))
        for feature in finalized - self._finalized:
            self._registry.gauge(
                _level_name(feature),
                lambda name=feature: self._replica.committed_image.features.finalized.get(name, 0),  # type: ignore[misc]
            )
        self._finalized = finalized


def _level_name(feature: str) -> str:
    first, *rest = feature.split(".")
    words = first + "".join(word.capitalize() for word in rest)
    return mbean("kafka.server", type="MetadataLoader", name="FinalizedLevel", featureName=words)
