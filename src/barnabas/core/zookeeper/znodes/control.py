"""Single znodes: the controller and its epoch, the cluster's id, features, the last block of producer ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.core.metadata.producer_ids import BLOCK_SIZE, ProducerIdsImage
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, json_of
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.producer_ids_record import ProducerIdsRecord

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURES: Final = "/feature"
PRODUCER_IDS: Final = "/latest_producer_id_block"
_FEATURES_ENABLED: Final = 1


def controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Give what whoever takes the controller role writes."""
    return json_of({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


def controller_id(znode: Znode) -> int:
    """Give the broker that is the controller."""
    return Fields(znode).whole("brokerid")


def is_of_kraft(znode: Znode) -> bool:
    """Say whether a KRaft controller holds the role: a migration is under way."""
    fields = Fields(znode)
    return "kraftControllerEpoch" in fields.all and fields.whole("kraftControllerEpoch") >= 0


def epoch(number: int) -> bytes:
    """Give what `/controller_epoch` holds."""
    return str(number).encode()


def epoch_in(znode: Znode) -> int:
    """Give the epoch of the last controller that was elected."""
    try:
        return int(znode.data)
    except ValueError:
        raise ZnodeError(znode.path, "not a number") from None


def cluster_id(text: str) -> bytes:
    """Give what `/cluster/id` holds."""
    return json_of({"version": "1", "id": text})


def cluster_id_in(znode: Znode) -> str:
    """Give the cluster's id."""
    return Fields(znode).text("id")


def features(levels: Mapping[str, int]) -> bytes:
    """Give what `/feature` holds, as Kafka 3.3 and later write it: the finalized features."""
    return json_of(
        {
            "features": {name: {"max_version_level": level} for name, level in levels.items()},
            "version": 2,
            "status": _FEATURES_ENABLED,
        }
    )


def feature_records(znode: Znode) -> Iterator[VersionedRecord]:
    """Give the records that finalize features; none while brokers of before 2.7 may be there."""
    fields = Fields(znode)
    fields.version(2)
    if fields.whole("status") != _FEATURES_ENABLED:
        return
    for name, levels in sorted(fields.mapping("features").items()):
        level: Any = levels.get("max_version_level") if isinstance(levels, dict) else None
        if type(level) is not int:
            raise ZnodeError(znode.path, f"feature {name!r} has no level")
        yield VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)


def producer_ids(image: ProducerIdsImage) -> bytes:
    """Give what `/latest_producer_id_block` holds after a block was given."""
    return json_of(
        {
            "version": 1,
            "broker": image.broker_id,
            "block_start": str(image.next_producer_id - BLOCK_SIZE),
            "block_end": str(image.next_producer_id - 1),
        }
    )


def producer_id_records(znode: Znode) -> Iterator[VersionedRecord]:
    """Give the record of the last block; none where no block was given yet."""
    if not znode.data:
        return
    fields = Fields(znode)
    following = fields.whole("block_end") + 1
    record = ProducerIdsRecord(broker_id=fields.whole("broker"), broker_epoch=-1, next_producer_id=following)
    yield VersionedRecord(record, 0)
