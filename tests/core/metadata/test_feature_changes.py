"""UpdateFeatures: up where every node can follow, down where nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.core.metadata.cluster import VersionRange
from barnabas.core.metadata.feature_changes import UpgradeType, update_features
from barnabas.core.metadata.image import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.config_record import ConfigRecord
from tests.core.metadata.clusters import a_cluster, apply, features

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
ELR = "eligible.leader.replicas.version"


def refusal(image: MetadataImage, name: str, level: int, how: UpgradeType = UP) -> str | None:
    decision = update_features(image, {name: (level, how)}, node_id=0)
    if decision.response is None:
        return None
    assert decision.records == ()
    assert decision.response.code is ErrorCode.INVALID_UPDATE_VERSION
    return decision.response.message


@pytest.mark.parametrize(
    ("start", "name", "level", "how", "why"),
    [
        (29, "metadata.version", 30, UP, None),
        (30, "metadata.version", 29, UP, "safe or an unsafe"),
        (30, "metadata.version", 29, SAFE, "cannot hold"),
        (30, "metadata.version", 29, UNSAFE, "not supported"),
        (29, "metadata.version", 23, SAFE, None),
        (29, "metadata.version", 22, SAFE, "cannot hold"),
        (29, "metadata.version", 31, UP, "supports 7 to 30"),
        (29, "metadata.version", 6, SAFE, "supports 7 to 30"),
        (29, "metadata.version", 30, SAFE, "cannot raise"),
        (29, "metadata.version", -1, SAFE, "below 0"),
        (29, "metadata.version", 29, UpgradeType.UNKNOWN, "does not know"),
        (29, "group.version", 1, UP, None),
        (29, "share.version", 1, UP, "supports 0 to 0"),
        (29, "nonsense", 1, UP, "does not know this feature"),
        (29, "nonsense", 0, UP, "no such feature"),
        (29, ELR, 1, UP, None),
        (22, ELR, 1, UP, "depends on"),
        (29, "kraft.version", 1, UP, "static voters"),
    ],
)
def test_levels_change_as_kafka_lets_them(start: int, name: str, level: int, how: UpgradeType, why: str | None) -> None:
    said = refusal(features({"metadata.version": start}), name, level, how)
    assert (said is None) == (why is None)
    assert why is None or (said is not None and why in said)


def test_every_node_must_follow() -> None:
    image = a_cluster(1, 2, metadata_version=29)
    assert refusal(image, "metadata.version", 30) is None
    old = replace(
        image.cluster.brokers[2],
        features=image.cluster.brokers[2].features.set("metadata.version", VersionRange(7, 29)),
    )
    image = replace(image, cluster=replace(image.cluster, brokers=image.cluster.brokers.set(2, old)))
    assert "broker 2 supports 7 to 29" in (refusal(image, "metadata.version", 30) or "")
    lone = features({"metadata.version": 29})
    decision = update_features(lone, {"metadata.version": (30, UP)}, node_id=0, voters=[0, 9])
    assert decision.response is not None
    assert "controller 9 has not registered" in (decision.response.message or "")


def test_all_or_none() -> None:
    image = features({"metadata.version": 29})
    decision = update_features(image, {"metadata.version": (30, UP), "share.version": (1, UP)}, node_id=0)
    assert decision.response is not None
    assert decision.records == ()
    dry = update_features(image, {"metadata.version": (30, UP)}, node_id=0, validate_only=True)
    assert (dry.records, dry.response) == ((), None)


def test_turning_eligible_leaders_on_sets_min_insync_replicas_first() -> None:
    image = features({"metadata.version": 30})
    decision = update_features(image, {ELR: (1, UP)}, node_id=0, static_min_insync_replicas=2)
    assert decision.records[0].record == ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )
    after = apply(image, decision.records)
    assert after.levels.elr
    back = apply(after, update_features(after, {ELR: (0, SAFE)}, node_id=0).records)
    assert not back.levels.elr


def test_the_raft_layer_changes_kraft_version() -> None:
    image = features({"metadata.version": 30})
    asked: list[tuple[int, bool]] = []
    decision = update_features(
        image, {"kraft.version": (1, UP)}, node_id=0, upgrade_kraft=lambda level, dry: asked.append((level, dry))
    )
    assert decision.response is None
    assert asked == [(1, False)]
    assert len(decision.records) == 1
    down = update_features(image, {"kraft.version": (0, SAFE)}, node_id=0, kraft_version=1)
    assert down.response is not None
    same = update_features(image, {"kraft.version": (1, UP)}, node_id=0, kraft_version=1)
    assert same.response is None
