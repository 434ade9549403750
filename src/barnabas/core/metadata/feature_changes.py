"""What UpdateFeatures decides (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final

from barnabas.core.metadata.cluster import VersionRange
from barnabas.core.metadata.config_changes import elr_safety_records
from barnabas.core.metadata.features import ELR_VERSION, level_record
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.features import (
    FEATURE_BY_NAME,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    MetadataVersion,
    missing_dependency,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.no_op_record import NoOpRecord


class UpgradeType(IntEnum):
    """What a change of level may do; the numbers are the wire's."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def of(cls, code: int) -> UpgradeType:
        """Give the type with this number, UNKNOWN when there is none."""
        return cls(code) if 0 < code <= cls.UNSAFE_DOWNGRADE else cls.UNKNOWN


_SAME_METADATA: Final = frozenset(
    {
        MetadataVersion.IBP_3_5_IV0,
        MetadataVersion.IBP_3_5_IV1,
        MetadataVersion.IBP_3_6_IV0,
        MetadataVersion.IBP_3_7_IV1,
        MetadataVersion.IBP_3_7_IV3,
        MetadataVersion.IBP_3_7_IV4,
        MetadataVersion.IBP_3_8_IV0,
        MetadataVersion.IBP_3_9_IV0,
        MetadataVersion.IBP_4_0_IV0,
        MetadataVersion.IBP_4_0_IV2,
        MetadataVersion.IBP_4_0_IV3,
        MetadataVersion.IBP_4_1_IV0,
        MetadataVersion.IBP_4_1_IV1,
        MetadataVersion.IBP_4_2_IV0,
        MetadataVersion.IBP_4_2_IV1,
    }
)
"""Levels that write the same records as the level before: going back over them loses nothing."""

UpgradeKraft = Callable[[int, bool], None]
"""Changes kraft.version in the Raft layer (level, validate only); ApiError when that cannot be."""


def update_features(
    image: MetadataImage,
    updates: Mapping[str, tuple[int, UpgradeType]],
    *,
    node_id: int,
    voters: Iterable[int] = (),
    kraft_version: int = 0,
    upgrade_kraft: UpgradeKraft | None = None,
    static_min_insync_replicas: int = 1,
    validate_only: bool = False,
) -> Decision[ApiError | None]:
    """Change levels, all or none. The answer is None, or the refusal that concerns the whole request.

    voters: the quorum's node ids; static_min_insync_replicas: the server's own setting, wanted when ELR is turned on.
    """
    finalized = {**image.features.finalized, KRAFT_VERSION: kraft_version}
    proposed = {**finalized, **{name: level for name, (level, _) in updates.items()}}
    records: list[VersionedRecord] = []
    try:
        for name, (level, how) in updates.items():
            _check_allowed(name, level, how, finalized.get(name, 0))
            _check_supported(image, name, level, node_id, voters)
            records += _changed(name, level, how, finalized, proposed, upgrade_kraft, validate_only)
    except ApiError as e:
        return Decision((), e)
    if validate_only:
        return Decision((), None)
    if updates.get(ELR_VERSION, (0, None))[0] > 0:
        records = [*elr_safety_records(image, static_min_insync_replicas), *records]
    return Decision(tuple(records), None)


def _invalid(name: str, level: int, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"cannot set {name} to {level}: {why}")


def _check_allowed(name: str, level: int, how: UpgradeType, current: int) -> None:
    if how is UpgradeType.UNKNOWN:
        raise _invalid(name, level, "the request asks for a kind of change that this controller does not know")
    if level < 0:
        raise _invalid(name, level, "a level is never below 0")
    if level < current and how is UpgradeType.UPGRADE:
        raise _invalid(name, level, f"it is {current} now; ask for a safe or an unsafe downgrade to lower it")
    if level > current and how is not UpgradeType.UPGRADE:
        raise _invalid(name, level, f"it is {current} now, which is lower; a downgrade cannot raise it")


def _check_supported(image: MetadataImage, name: str, level: int, node_id: int, voters: Iterable[int]) -> None:
    here = SUPPORTED_FEATURES.get(name)
    _check_range(name, level, f"controller {node_id}", None if here is None else VersionRange(*here))
    for broker_id, broker in sorted(image.cluster.brokers.items()):
        _check_range(name, level, f"broker {broker_id}", broker.features.get(name))
    if not image.levels.controller_registration:
        return
    for controller_id, controller in sorted(image.cluster.controllers.items()):
        if controller_id != node_id:
            _check_range(name, level, f"controller {controller_id}", controller.features.get(name))
    for voter in sorted(voters):
        if voter != node_id and voter not in image.cluster.controllers:
            raise _invalid(name, level, f"controller {voter} has not registered, so what it supports is not known")


def _check_range(name: str, level: int, node: str, supported: VersionRange | None) -> None:
    if supported is None:
        if level != 0:
            raise _invalid(name, level, f"{node} does not know this feature")
    elif not supported.lowest <= level <= supported.highest:
        raise _invalid(name, level, f"{node} supports {supported.lowest} to {supported.highest}")


def _changed(
    name: str,
    level: int,
    how: UpgradeType,
    finalized: Mapping[str, int],
    proposed: Mapping[str, int],
    upgrade_kraft: UpgradeKraft | None,
    validate_only: bool,
) -> list[VersionedRecord]:
    current = finalized.get(name, 0)
    if name == METADATA_VERSION:
        _check_metadata_downgrade(level, current, how)
        return [level_record(name, level)]
    if name == KRAFT_VERSION:
        return _kraft(level, current, how, upgrade_kraft, validate_only)
    if name not in FEATURE_BY_NAME:
        raise _invalid(name, level, "there is no such feature")  # level 0 of it is what every node supports
    missing = missing_dependency(name, level, proposed)
    if missing:
        raise _invalid(name, level, missing)
    return [level_record(name, level)]


def _check_metadata_downgrade(level: int, current: int, how: UpgradeType) -> None:
    if level >= current:
        return
    if any(v not in _SAME_METADATA for v in MetadataVersion if level < v <= current):
        why = (
            "an unsafe downgrade of metadata.version is not supported"
            if how is UpgradeType.UNSAFE_DOWNGRADE
            else f"it is {current} now, and the older level cannot hold all that the log may contain"
        )
        raise _invalid(METADATA_VERSION, level, why)


def _kraft(
    level: int, current: int, how: UpgradeType, upgrade_kraft: UpgradeKraft | None, validate_only: bool
) -> list[VersionedRecord]:
    if level == current and how is not UpgradeType.UPGRADE:
        return []
    if level < current:
        raise _invalid(KRAFT_VERSION, level, f"it is {current} now and can never be lowered")
    if level == current:
        return [VersionedRecord(NoOpRecord(), 0)]
    if upgrade_kraft is None:
        raise _invalid(KRAFT_VERSION, level, "this quorum was formed with static voters and cannot change that")
    upgrade_kraft(level, validate_only)
    # The Raft layer writes its own control record; this one gives the answer an offset to wait for.
    return [VersionedRecord(NoOpRecord(), 0)]
