from __future__ import annotations

import pytest

from barnabas.core.metadata.activation import activate, default_bootstrap, effective
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.model.features import LATEST_METADATA_VERSION
from barnabas.wire.records.feature_level_record import FeatureLevelRecord


def levels(**found: int) -> list[VersionedRecord]:
    return [
        VersionedRecord(FeatureLevelRecord(name=name.replace("_", "."), feature_level=level), 0)
        for name, level in found.items()
    ]


def names(records: tuple[VersionedRecord, ...]) -> list[str]:
    return [type(r.record).__name__ for r in records]


def test_the_bootstrap_of_an_empty_log_stands_in_a_transaction() -> None:
    bootstrap = levels(metadata_version=30, eligible_leader_replicas_version=1)
    decision = activate(MetadataImage.EMPTY, False, bootstrap, 2)
    assert names(decision.records) == [
        "BeginTransactionRecord", "FeatureLevelRecord", "FeatureLevelRecord", "ConfigRecord", "EndTransactionRecord",
    ]  # fmt: skip
    config = decision.records[3].record
    assert (config.resource_type, config.resource_name, config.name, config.value) == (
        4,
        "",
        "min.insync.replicas",
        "2",
    )
    assert len(effective(decision.records)) == 3


def test_without_eligible_leader_replicas_no_config_is_written() -> None:
    decision = activate(MetadataImage.EMPTY, False, levels(metadata_version=30), 2)
    assert names(decision.records) == ["BeginTransactionRecord", "FeatureLevelRecord", "EndTransactionRecord"]


def test_a_metadata_version_without_transactions_gets_one_batch() -> None:
    decision = activate(MetadataImage.EMPTY, False, levels(metadata_version=12), 1)
    assert names(decision.records) == ["FeatureLevelRecord"]
    assert decision.atomic


@pytest.mark.parametrize("open_transaction", [True, False])
def test_a_log_with_metadata_needs_only_the_end_of_what_was_left(open_transaction: bool) -> None:
    image = replay(MetadataImage.EMPTY, default_bootstrap())
    assert image.features.metadata_version == LATEST_METADATA_VERSION
    decision = activate(image, open_transaction, levels(metadata_version=30), 1)
    assert names(decision.records) == (["AbortTransactionRecord"] if open_transaction else [])


def test_a_bootstrap_that_was_interrupted_begins_anew() -> None:
    decision = activate(MetadataImage.EMPTY, True, levels(metadata_version=30), 1)
    assert names(decision.records) == [
        "AbortTransactionRecord", "BeginTransactionRecord", "FeatureLevelRecord", "EndTransactionRecord",
    ]  # fmt: skip
