"""Small clusters to decide about: images made of records, and a schema of a few keys."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from barnabas.core.metadata.config_changes import EffectiveConfig
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType, ConfigsImage
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.topic_changes import TopicPlans
from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.core.replicated import VersionedRecord
from barnabas.model.config import ConfigError
from barnabas.model.features import SUPPORTED_FEATURES
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.wire.records.topic_record import TopicRecord
from tests.core.metadata.metadata_records import a_uuid

LISTS = frozenset({"cleanup.policy"})
DEFAULTS = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "1",
    "retention.ms": "100",
    "unclean.leader.election.enable": "false",
}


class FewKeys:
    """A schema of four topic keys; a broker's keys are free."""

    def check(self, resource: ConfigResource, new: Mapping[str, str], old: Mapping[str, str]) -> None:
        for key, value in new.items():
            if resource.type is ConfigResourceType.TOPIC and (key not in DEFAULTS or value == "bad"):
                raise ConfigError(f"{key}: {value!r} is not allowed")

    def allow(self, resource: ConfigResource, altered: Mapping[str, str | None]) -> None:
        if "forbidden" in altered.values():
            raise ApiError(ErrorCode.POLICY_VIOLATION, "not here")

    def is_list(self, resource_type: ConfigResourceType, key: str) -> bool:
        return key in LISTS

    def default(self, resource_type: ConfigResourceType, key: str) -> str | None:
        return DEFAULTS.get(key)

    def effective_topic(self, configs: ConfigsImage, overrides: Mapping[str, str]) -> list[EffectiveConfig]:
        return [EffectiveConfig(k, overrides.get(k, v), 1 if k in overrides else 5, False) for k, v in DEFAULTS.items()]

    def topic_value(self, configs: ConfigsImage, overrides: Mapping[str, str], key: str) -> str:
        return overrides.get(key, DEFAULTS[key])


SCHEMA = FewKeys()


def features(levels: Mapping[str, int]) -> MetadataImage:
    """Give an image with these levels."""
    image = MetadataImage.EMPTY
    for name, level in levels.items():
        image = replay_one(image, FeatureLevelRecord(name=name, feature_level=level))
    return image


def a_cluster(
    *brokers: int,
    fenced: Sequence[int] = (),
    racks: Mapping[int, str] | None = None,
    elr: bool = False,
    metadata_version: int = 30,
) -> MetadataImage:
    """Give a cluster of these brokers: broker n has epoch 100 + n and one log directory, a_uuid(n)."""
    levels = {"metadata.version": metadata_version}
    if elr:
        levels["eligible.leader.replicas.version"] = 1
    image = features(levels)
    for broker in brokers:
        image = replay_one(
            image,
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=a_uuid(500 + broker),
                broker_epoch=100 + broker,
                end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
                features=[
                    BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED_FEATURES.items()
                ],
                rack=(racks or {}).get(broker),
                fenced=broker in fenced,
                log_dirs=[a_uuid(broker)] if metadata_version >= 17 else [],
            ),
        )
    return image.at(1000, 1)


def with_topic(image: MetadataImage, name: str, *partitions: PartitionRegistration, n: int = 900) -> MetadataImage:
    """Give the image with a topic, its id being a_uuid(n)."""
    records = [VersionedRecord(TopicRecord(name=name, topic_id=a_uuid(n)), 0)]
    records += [p.record(a_uuid(n), i, image.levels) for i, p in enumerate(partitions)]
    return replay(image, records)


def a_partition(
    replicas: Sequence[int], isr: Sequence[int] | None = None, **rest: int | tuple[int, ...]
) -> PartitionRegistration:
    """Give a partition of these brokers, each in its only directory; the first of the ISR leads."""
    in_sync = tuple(replicas if isr is None else isr)
    rest.setdefault("leader", in_sync[0] if in_sync else -1)
    return PartitionRegistration(
        tuple(replicas),
        tuple(a_uuid(r) for r in replicas),
        in_sync,
        **rest,  # type: ignore[arg-type]
    )


class Ids:
    """Fresh ids in order."""

    def __init__(self) -> None:
        self._n = 5000

    def __call__(self) -> Uuid:
        self._n += 1
        return a_uuid(self._n)


def plans(num_partitions: int = 1, replication_factor: int = 1) -> TopicPlans:
    """Give plans with the schema above, ids in order and seeded chance."""
    return TopicPlans(SCHEMA, Ids(), random.Random(1).randrange, num_partitions, replication_factor)


def apply(image: MetadataImage, records: Sequence[VersionedRecord]) -> MetadataImage:
    """Give the image after the records, as of the last of them."""
    return replay(image, records).at(image.offset_epoch.offset + len(records), 1)
