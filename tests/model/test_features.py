from __future__ import annotations

import pytest

from barnabas.model.features import (
    FEATURE_BY_NAME,
    FEATURES,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    MetadataVersion,
    missing_dependency,
)


@pytest.mark.parametrize(
    ("text", "level"), [("4.3", 30), ("4.3.1", 30), ("4.3-IV0", 30), ("3.7", 19), ("3.7-IV0", 15), ("3.3", 7)]
)
def test_releases_and_levels_are_understood(text: str, level: int) -> None:
    assert MetadataVersion.parse(text) == level


@pytest.mark.parametrize("text", ["", "4", "9.9", "4.4", "4.4-IV0", "4.3-IV7", "x"])
def test_what_is_no_stable_level_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        MetadataVersion.parse(text)


def test_an_unstable_level_counts_only_by_its_own_name() -> None:
    assert MetadataVersion.parse("4.4-IV0", unstable=True) == 31
    with pytest.raises(ValueError):
        MetadataVersion.parse("4.4", unstable=True)


def test_levels_print_as_kafka_prints_them() -> None:
    assert str(LATEST_METADATA_VERSION) == "4.3-IV0"
    assert str(MetadataVersion.IBP_3_9_IV0) == "3.9-IV0"


def test_defaults_grow_with_the_metadata_version() -> None:
    for feature in FEATURES:
        defaults = [feature.default_level(v) for v in MetadataVersion]
        assert defaults == sorted(defaults)
    assert FEATURE_BY_NAME["transaction.version"].default_level(MetadataVersion.IBP_4_0_IV2) == 2
    assert FEATURE_BY_NAME["transaction.version"].default_level(MetadataVersion.IBP_4_0_IV1) == 0


def test_what_a_level_needs_is_named() -> None:
    elr = "eligible.leader.replicas.version"
    assert missing_dependency(elr, 1, {METADATA_VERSION: 23}) is None
    assert "level 23" in (missing_dependency(elr, 1, {METADATA_VERSION: 22}) or "")
    assert missing_dependency(elr, 0, {}) is None
    assert "metadata.version=7" in (missing_dependency("group.version", 1, {}) or "")


def test_supported_levels_exist() -> None:
    for feature in FEATURES:
        assert feature.at(SUPPORTED_FEATURES[feature.name][1]).level == SUPPORTED_FEATURES[feature.name][1]
