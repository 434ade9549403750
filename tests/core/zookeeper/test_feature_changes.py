"""UpdateFeatures in ZooKeeper mode, as Apache Kafka 3.9.1 was seen to answer it."""

from __future__ import annotations

import pytest

from barnabas.core.metadata.feature_changes import UpgradeType
from barnabas.core.zookeeper.feature_changes import Update, update_features
from barnabas.wire.errors import ErrorCode
from tests.core.metadata.clusters import apply, features

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
IMAGE = features({"metadata.version": 20, "group.version": 1})


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (Update("f", 1, UP), "have no level of f: theirs is inter.broker.protocol.version"),
        (Update("f", 1, SAFE), "have no level of f"),
        (Update("group.version", 1, UP), "have no level of group.version"),
        (Update("metadata.version", 21, UP), "have no level of metadata.version"),
        (Update("metadata.version", 0, SAFE), "is not finalized"),  # the image has it, and nobody else
        (Update("f", 0, UP), "level 0 is below 1"),
        (Update("group.version", -1, UP), "level -1 is below 1"),
        (Update("f", 0, UNSAFE), "f is not finalized, and cannot be taken away"),
        (Update("", 1, UP), "the name of a feature is empty"),
        (Update("f", 1, UpgradeType.UNKNOWN), "the kind of the change is unknown"),
    ],
)
def test_what_is_refused(update: Update, why: str) -> None:
    decision = update_features(IMAGE, [update])
    error = decision.response[update.feature]
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert why in (error.message or "")
    assert decision.records == ()


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_what_somebody_else_has_finalized_can_be_taken_away(kind: UpgradeType) -> None:
    asked = [Update("f", 1, UP), Update("group.version", 0, kind), Update("group.version", 1, UP)]
    assert update_features(IMAGE, asked, validate_only=True).records == ()
    decision = update_features(IMAGE, asked)
    assert [(name, error is None) for name, error in decision.response.items()] == [
        ("f", False), ("group.version", True),
    ]  # fmt: skip
    assert dict(apply(IMAGE, decision.records).features.finalized) == {"metadata.version": 20}
