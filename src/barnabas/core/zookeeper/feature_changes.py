"""What UpdateFeatures decides in ZooKeeper mode, where brokers have no feature that could be finalized (KIP-584)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.core.metadata.feature_changes import UpgradeType
from barnabas.core.metadata.features import level_record
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision
from barnabas.model.features import METADATA_VERSION
from barnabas.wire.errors import ApiError, ErrorCode


class Update(NamedTuple):
    """A level that is asked for; one below 1 is to take the feature away."""

    feature: str
    level: int
    kind: UpgradeType


def update_features(
    image: MetadataImage, updates: Iterable[Update], *, validate_only: bool = False
) -> Decision[Mapping[str, ApiError | None]]:
    """Take away features that somebody else has finalized, and refuse everything else; the answer: why not, by name.

    Each counts for itself, and of several for one feature the first, as in Kafka 3.9.
    """
    first: dict[str, Update] = {}
    for update in updates:
        first.setdefault(update.feature, update)
    answer = {name: _refusal(image, update) for name, update in first.items()}
    gone = [level_record(name, 0) for name, error in answer.items() if error is None]
    return Decision(() if validate_only else tuple(gone), answer)


def _refusal(image: MetadataImage, update: Update) -> ApiError | None:
    text = _why_not(image, update)
    return None if text is None else ApiError(ErrorCode.INVALID_REQUEST, text)


def _why_not(image: MetadataImage, update: Update) -> str | None:
    if not update.feature:
        return "the name of a feature is empty"
    if update.kind is UpgradeType.UNKNOWN:
        return "the kind of the change is unknown: want 1, an upgrade, 2, a safe downgrade, or 3, an unsafe one"
    if update.level >= 1:
        return (
            f"the brokers of this cluster, which is in ZooKeeper mode, have no level of {update.feature}: theirs is "
            "inter.broker.protocol.version"
        )
    if update.kind is UpgradeType.UPGRADE:
        return f"level {update.level} is below 1, which takes a feature away: that is a downgrade"
    if update.feature == METADATA_VERSION or update.feature not in image.features.others:
        return f"{update.feature} is not finalized, and cannot be taken away"
    return None
