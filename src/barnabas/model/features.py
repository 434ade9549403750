"""Kafka's feature versions: what each level needs, and which this node supports (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"


class MetadataVersion(IntEnum):
    """The levels of `metadata.version`; a level's number never changes its meaning."""

    IBP_3_3_IV3 = 7
    IBP_3_4_IV0 = 8
    IBP_3_5_IV0 = 9
    IBP_3_5_IV1 = 10
    IBP_3_5_IV2 = 11
    IBP_3_6_IV0 = 12
    IBP_3_6_IV1 = 13
    IBP_3_6_IV2 = 14
    IBP_3_7_IV0 = 15
    IBP_3_7_IV1 = 16
    IBP_3_7_IV2 = 17
    IBP_3_7_IV3 = 18
    IBP_3_7_IV4 = 19
    IBP_3_8_IV0 = 20
    IBP_3_9_IV0 = 21
    IBP_4_0_IV0 = 22
    IBP_4_0_IV1 = 23
    IBP_4_0_IV2 = 24
    IBP_4_0_IV3 = 25
    IBP_4_1_IV0 = 26
    IBP_4_1_IV1 = 27
    IBP_4_2_IV0 = 28
    IBP_4_2_IV1 = 29
    IBP_4_3_IV0 = 30
    IBP_4_4_IV0 = 31

    @property
    def release(self) -> str:
        """The release that brought it, `4.3`."""
        _, major, minor, _ = self.name.split("_")
        return f"{major}.{minor}"

    def __str__(self) -> str:
        return f"{self.release}-{self.name.rsplit('_', 1)[1]}"

    @classmethod
    def parse(cls, text: str, *, unstable: bool = False) -> MetadataVersion:
        """Give the level that a text means: a level (`4.3-IV0`), or a release (`4.3`, `4.3.1`), its newest stable one.

        unstable: levels past the newest stable one may be named too. ValueError for what is not known.
        """
        known = [v for v in cls if unstable or v <= LATEST_METADATA_VERSION]
        name = ".".join(text.split(".")[:2])
        by_level = [v for v in known if str(v) == name]
        of_release = by_level or [v for v in known if v.release == name and v <= LATEST_METADATA_VERSION]
        if not of_release:
            raise ValueError(
                f"Unknown metadata.version '{text}': want a release from {known[0].release} to "
                f"{LATEST_METADATA_VERSION.release}, or one of {', '.join(map(str, known))}"
            )
        return of_release[-1]


MINIMUM_METADATA_VERSION: Final = MetadataVersion.IBP_3_3_IV3
LATEST_METADATA_VERSION: Final = MetadataVersion.IBP_4_3_IV0
"""The newest stable level."""


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """One level of a feature. since: the first `metadata.version` whose new clusters get it by default."""

    level: int
    since: MetadataVersion
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, its levels from 0 up, and the highest one that this node can run."""

    name: str
    levels: tuple[FeatureLevel, ...]
    supported_max: int

    def default_level(self, metadata_version: int) -> int:
        """Give the level that Kafka gives a new cluster at this metadata.version."""
        return max(f.level for f in self.levels if f.since <= metadata_version)

    def at(self, level: int) -> FeatureLevel:
        """Give the level's row; ValueError when Kafka has no such level."""
        for row in self.levels:
            if row.level == level:
                return row
        raise ValueError(f"{self.name} has no level {level}, only {', '.join(str(row.level) for row in self.levels)}")


_FIRST: Final = FeatureLevel(0, MINIMUM_METADATA_VERSION)

FEATURES: Final = (
    Feature(KRAFT_VERSION, (_FIRST, FeatureLevel(1, MetadataVersion.IBP_3_9_IV0)), supported_max=1),
    Feature(
        "transaction.version",
        (
            _FIRST,
            FeatureLevel(1, MetadataVersion.IBP_4_0_IV2),
            FeatureLevel(2, MetadataVersion.IBP_4_0_IV2),
        ),
        supported_max=2,
    ),
    Feature("group.version", (_FIRST, FeatureLevel(1, MetadataVersion.IBP_4_0_IV0)), supported_max=1),
    Feature(
        "eligible.leader.replicas.version",
        (
            _FIRST,
            FeatureLevel(1, MetadataVersion.IBP_4_1_IV0, {METADATA_VERSION: int(MetadataVersion.IBP_4_0_IV1)}),
        ),
        supported_max=1,
    ),
    Feature("share.version", (_FIRST, FeatureLevel(1, MetadataVersion.IBP_4_2_IV0)), supported_max=0),
    Feature("streams.version", (_FIRST, FeatureLevel(1, MetadataVersion.IBP_4_2_IV1)), supported_max=0),
)
"""Every production feature but `metadata.version`, in Kafka's order."""
FEATURE_BY_NAME: Final = {feature.name: feature for feature in FEATURES}

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (int(MINIMUM_METADATA_VERSION), int(LATEST_METADATA_VERSION)),
    **{feature.name: (0, feature.supported_max) for feature in FEATURES},
}
"""What this node tells the cluster it can run: name -> (lowest, highest level)."""


def missing_dependency(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Say what stops `name` from being at `level` beside `levels`, in a sentence; None when nothing does."""
    if level == 0:
        return None
    metadata_version = levels.get(METADATA_VERSION)
    if metadata_version is None or metadata_version < MINIMUM_METADATA_VERSION:
        return (
            f"level {level} of {name} depends on "
            f"{METADATA_VERSION}={int(MINIMUM_METADATA_VERSION)} ({MINIMUM_METADATA_VERSION})"
        )
    for other, least in FEATURE_BY_NAME[name].at(level).needs.items():
        if levels.get(other, -1) < least:
            return f"level {level} of {name} depends on {other} level {least}"
    return None
