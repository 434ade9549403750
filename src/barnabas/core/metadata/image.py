"""The whole metadata as one frozen value: replay, and the records a snapshot of it holds.

Each topic of the metadata has a module with its own image, replay functions and snapshot records; `TOPICS` lists
them in the order in which Kafka writes snapshots. A record concerns one topic, but for RemoveTopicRecord, which also
takes the topic's configs along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from barnabas.core.metadata import acls, cluster, configs, features, producer_ids, quotas, scram, tokens, topics
from barnabas.core.metadata.acls import AclsImage
from barnabas.core.metadata.cluster import ClusterImage
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType, ConfigsImage
from barnabas.core.metadata.features import FeaturesImage
from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.producer_ids import ProducerIdsImage
from barnabas.core.metadata.quotas import ClientQuotasImage
from barnabas.core.metadata.scram import ScramImage
from barnabas.core.metadata.tokens import TokensImage
from barnabas.core.metadata.topics import TopicsImage
from barnabas.core.replicated import ReplayTable, UnknownRecordError, VersionedRecord, replays
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.records.no_op_record import NoOpRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.zk_migration_state_record import ZkMigrationStateRecord

NOTHING_READ: Final = OffsetAndEpoch(-1, -1)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster's metadata at one point of the log. offset_epoch: the last record it includes."""

    EMPTY: ClassVar[MetadataImage]

    offset_epoch: OffsetAndEpoch = NOTHING_READ
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    client_quotas: ClientQuotasImage = field(default_factory=ClientQuotasImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    acls: AclsImage = field(default_factory=AclsImage)
    scram: ScramImage = field(default_factory=ScramImage)
    tokens: TokensImage = field(default_factory=TokensImage)

    @property
    def levels(self) -> Levels:
        """What the finalized features allow to be written."""
        return self.features.levels

    def at(self, offset: int, epoch: int) -> MetadataImage:
        """Give the same metadata as of a later record."""
        return replace(self, offset_epoch=OffsetAndEpoch(offset, epoch))


MetadataImage.EMPTY = MetadataImage()


class Topic(NamedTuple):
    """One topic of the metadata: the image's attribute, its replay functions, its snapshot records."""

    attribute: str
    replays: tuple[Callable[..., Any], ...]
    snapshot_records: Callable[[Any, Levels], Iterator[VersionedRecord]]


TOPICS: Final = (
    Topic("features", features.REPLAYS, features.snapshot_records),
    Topic("cluster", cluster.REPLAYS, cluster.snapshot_records),
    Topic("topics", topics.REPLAYS, topics.snapshot_records),
    Topic("configs", configs.REPLAYS, configs.snapshot_records),
    Topic("client_quotas", quotas.REPLAYS, quotas.snapshot_records),
    Topic("producer_ids", producer_ids.REPLAYS, producer_ids.snapshot_records),
    Topic("acls", acls.REPLAYS, acls.snapshot_records),
    Topic("scram", scram.REPLAYS, scram.snapshot_records),
    Topic("tokens", tokens.REPLAYS, tokens.snapshot_records),
)


@replays(RemoveTopicRecord)
def remove_topic(image: MetadataImage, r: RemoveTopicRecord) -> MetadataImage:
    """Remove a topic, and what was configured for it."""
    without = topics.remove_topic(image.topics, r)
    name = image.topics.by_id[r.topic_id].name
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    return replace(image, topics=without, configs=image.configs.without(resource))


@replays(NoOpRecord)
def no_op(image: MetadataImage, r: NoOpRecord) -> MetadataImage:
    """Change nothing: the active controller writes it so that offsets move."""
    return image


@replays(ZkMigrationStateRecord)
def zk_migration_state(image: MetadataImage, r: ZkMigrationStateRecord) -> MetadataImage:
    """Change nothing: clusters that were born before 4.0 have it in their log."""
    return image


WHOLE: Final[tuple[Callable[..., MetadataImage], ...]] = (remove_topic, no_op, zk_migration_state)
"""Replays that concern more than one topic, or none; they go before those of the topics."""

_WHOLE_TABLE: Final[ReplayTable[MetadataImage]] = ReplayTable(WHOLE)
_TOPIC_TABLES: Final = tuple((topic.attribute, ReplayTable[Any](topic.replays)) for topic in TOPICS)
_TABLE_OF: Final[dict[type, tuple[str, ReplayTable[Any]]]] = {
    record_type: (attribute, table) for attribute, table in reversed(_TOPIC_TABLES) for record_type in table.types()
}


def known_records() -> frozenset[type]:
    """Give the record classes that have a replay."""
    return _WHOLE_TABLE.types() | _TABLE_OF.keys()


def replay_one(image: MetadataImage, record: Any) -> MetadataImage:
    """Give the image after one record; ReplayError or UnknownRecordError when it does not fit."""
    if type(record) in _WHOLE_TABLE:
        return _WHOLE_TABLE.replay(image, record)
    found = _TABLE_OF.get(type(record))
    if found is None:
        raise UnknownRecordError(
            f"the metadata log holds a {type(record).__name__}, which this node cannot apply: "
            "a node of newer software, or a feature that we do not support, wrote it"
        )
    attribute, table = found
    return replace(image, **{attribute: table.replay(getattr(image, attribute), record)})


def snapshot_records(image: MetadataImage) -> Iterator[VersionedRecord]:
    """Give the records of a snapshot: replayed on EMPTY they make this image again (but for its offset)."""
    for topic in TOPICS:
        yield from topic.snapshot_records(getattr(image, topic.attribute), image.levels)
