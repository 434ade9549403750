"""Finalized features: their image, replay, UpdateFeatures and what a node checks before a level changes (KIP-584)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.model.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from barnabas.wire.records.feature_level_record import FeatureLevelRecord

ELR_VERSION: Final = "eligible.leader.replicas.version"


class UnsupportedFeatureError(ReplayError):
    """The log finalizes a feature level that this software does not have: going on would misread what follows."""


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """The finalized levels. metadata_version: None before any log was read; `others`: every other feature above 0."""

    metadata_version: int | None = None
    others: Map[str, int] = field(default_factory=Map)

    @property
    def finalized(self) -> Map[str, int]:
        """Every finalized feature and its level, `metadata.version` included (kraft.version is the Raft layer's)."""
        if self.metadata_version is None:
            return self.others
        return self.others.set(METADATA_VERSION, self.metadata_version)

    @property
    def levels(self) -> Levels:
        """What the levels allow to be written; the minimum while nothing is finalized."""
        version = int(MINIMUM_METADATA_VERSION) if self.metadata_version is None else self.metadata_version
        return Levels(version, elr=self.others.get(ELR_VERSION, 0) >= 1)


@replays(FeatureLevelRecord)
def set_level(image: FeaturesImage, r: FeatureLevelRecord) -> FeaturesImage:
    """Finalize one level; level 0 takes the feature away. UnsupportedFeatureError when we cannot run it."""
    lowest, highest = SUPPORTED_FEATURES.get(r.name, (0, 0))
    if not lowest <= r.feature_level <= highest:
        raise UnsupportedFeatureError(
            f"the metadata log sets {r.name} to {r.feature_level}, but this node supports {lowest} to {highest}: "
            f"format the cluster with --feature {r.name}={highest}, or run software that knows this level"
        )
    if r.name == METADATA_VERSION:
        return replace(image, metadata_version=int(r.feature_level))
    if r.name == KRAFT_VERSION:
        return image  # belongs to the Raft layer's own control records; early 4.0 controllers wrote it here
    if r.feature_level == 0:
        return replace(image, others=image.others.delete(r.name) if r.name in image.others else image.others)
    return replace(image, others=image.others.set(r.name, int(r.feature_level)))


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (set_level,)


def snapshot_records(image: FeaturesImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image; metadata.version leads, since it rules how the rest is read."""
    if image.metadata_version is None:
        return
    yield level_record(METADATA_VERSION, image.metadata_version)
    for name, level in sorted(image.others.items()):
        yield level_record(name, level)


def level_record(name: str, level: int) -> VersionedRecord:
    """Give the record that finalizes a level."""
    return VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)
