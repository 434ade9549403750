"""What a controller writes first when it becomes the active one: the bootstrap of an empty log, the end of what a
predecessor left half done (KIP-631, KIP-868, KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.core.metadata.features import ELR_VERSION
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.features import LATEST_METADATA_VERSION, METADATA_VERSION
from barnabas.wire.records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.end_transaction_record import EndTransactionRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord

MIN_ISR: Final = "min.insync.replicas"
_BROKERS: Final = int(ConfigResourceType.BROKER)
_MARKERS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


def default_bootstrap() -> list[VersionedRecord]:
    """Give the bootstrap of a directory that has no `bootstrap.checkpoint`: the newest stable metadata.version."""
    record = FeatureLevelRecord(name=METADATA_VERSION, feature_level=int(LATEST_METADATA_VERSION))
    return [VersionedRecord(record, 0)]


def activate(
    image: MetadataImage, transaction_open: bool, bootstrap: Sequence[VersionedRecord], min_insync_replicas: int
) -> Decision[str]:
    """Decide on the first records of an active controller; the response says for the log what they are.

    transaction_open: the log ends within a metadata transaction, which is given up. min_insync_replicas: this
    node's setting, which becomes the cluster's where eligible leader replicas are kept.
    """
    abort = [VersionedRecord(AbortTransactionRecord(reason="Controller failover"), 0)] if transaction_open else []
    if image.features.metadata_version is not None:
        return Decision(tuple(abort), "gave up an open transaction" if abort else "the log has metadata")
    found = {r.record.name: r.record.feature_level for r in bootstrap if isinstance(r.record, FeatureLevelRecord)}
    records = list(bootstrap)
    if found.get(ELR_VERSION, 0) > 0:
        config = ConfigRecord(resource_type=_BROKERS, resource_name="", name=MIN_ISR, value=str(min_insync_replicas))
        records.append(VersionedRecord(config, 0))
    transaction = Levels(found.get(METADATA_VERSION, 0)).transactions
    if transaction:
        begin = VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0)
        records = [begin, *records, VersionedRecord(EndTransactionRecord(), 0)]
    # Several batches are as good as one inside a transaction.
    said = f"the log was empty: wrote {len(bootstrap)} bootstrap records"
    return Decision((*abort, *records), said, atomic=not transaction)


def effective(records: Iterable[VersionedRecord]) -> list[VersionedRecord]:
    """Give the records without the marks that begin and end a transaction, which a decision holds whole."""
    return [r for r in records if not isinstance(r.record, _MARKERS)]
