"""What lies between two images: which topics, brokers, configs and rules a stretch of the log has touched.

Subscribers look only at what a delta names, so their work follows the change, not the cluster's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from immutables import Map

from barnabas.core.metadata.acls import AclRun
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.partition import RECOVERING, PartitionRegistration
from barnabas.core.metadata.quotas import QuotaEntity, entity_in
from barnabas.core.metadata.runs import Runs
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.metadata.topic_run import TopicRun
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.replicated import ReplayTable, replays
from barnabas.model.acl import AclBinding
from barnabas.model.uuid import Uuid
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.clear_elr_record import ClearElrRecord
from barnabas.wire.records.client_quota_record import ClientQuotaRecord
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.delegation_token_record import DelegationTokenRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.fence_broker_record import FenceBrokerRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.producer_ids_record import ProducerIdsRecord
from barnabas.wire.records.register_broker_record import RegisterBrokerRecord
from barnabas.wire.records.register_controller_record import RegisterControllerRecord
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.wire.records.topic_record import TopicRecord
from barnabas.wire.records.unfence_broker_record import UnfenceBrokerRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord

K = TypeVar("K")
AclChange = tuple[Uuid, AclBinding | None]
"""A rule's id, and the rule; None when it was removed."""


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What differs between two images. Names only; the values are in `before` and `after`.

    topics: ids of topics made or changed that exist after, with the numbers of the partitions touched.
    deleted_topics: ids that existed before and do not after, with their names (a name may exist again, as another id).
    acls: in the order of the log, which is the order to apply them in (A-14). snapshot: the log was not followed step
    by step; `after` came whole. unclean_elections, elr_elections: leaders that were not in sync, and those from the
    eligible leader replicas (KIP-966).
    """

    before: MetadataImage
    after: MetadataImage
    topics: Mapping[Uuid, frozenset[int]] = field(default_factory=dict)
    deleted_topics: Mapping[Uuid, str] = field(default_factory=dict)
    brokers: frozenset[int] = frozenset()
    controllers: frozenset[int] = frozenset()
    configs: frozenset[ConfigResource] = frozenset()
    client_quotas: frozenset[QuotaEntity] = frozenset()
    scram: frozenset[tuple[ScramMechanism, str]] = frozenset()
    tokens: frozenset[str] = frozenset()
    acls: tuple[AclChange, ...] = ()
    features: bool = False
    producer_ids: bool = False
    unclean_elections: int = 0
    elr_elections: int = 0
    snapshot: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing differs but the offset."""
        named = (
            self.topics, self.deleted_topics, self.brokers, self.controllers, self.configs, self.client_quotas,
            self.scram, self.tokens, self.acls, self.features, self.producer_ids,
        )  # fmt: skip
        return not any(named)

    @property
    def created_topics(self) -> list[TopicImage]:
        """The topics that exist after and did not before, by name."""
        after, before = self.after.topics.by_id, self.before.topics.by_id
        return sorted((after[i] for i in self.topics if i not in before), key=lambda topic: topic.name)


@dataclass(slots=True)
class _Touched:
    """Collects what records touch. image: before the record at hand, partition: of a PartitionChangeRecord, before it;
    within a run (`metadata.runs`) the image is the one before it."""

    image: MetadataImage
    partition: PartitionRegistration | None = None
    topics: dict[Uuid, set[int]] = field(default_factory=dict)
    deleted_topics: dict[Uuid, str] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    configs: set[ConfigResource] = field(default_factory=set)
    client_quotas: set[QuotaEntity] = field(default_factory=set)
    scram: set[tuple[ScramMechanism, str]] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    acls: list[AclChange] = field(default_factory=list)
    features: bool = False
    producer_ids: bool = False
    unclean_elections: int = 0
    elr_elections: int = 0


@replays(TopicRecord)
def _topic(touched: _Touched, r: TopicRecord) -> _Touched:
    touched.topics.setdefault(r.topic_id, set())
    return touched


@replays(PartitionRecord)
def _partition(touched: _Touched, r: PartitionRecord) -> _Touched:
    touched.topics.setdefault(r.topic_id, set()).add(r.partition_id)
    return touched


@replays(PartitionChangeRecord)
def _partition_change(touched: _Touched, r: PartitionChangeRecord) -> _Touched:
    touched.topics.setdefault(r.topic_id, set()).add(r.partition_id)
    if r.leader_recovery_state == RECOVERING:
        touched.unclean_elections += 1
    if r.leader >= 0 and touched.partition is not None and r.leader in touched.partition.elr:
        touched.elr_elections += 1
    return touched


@replays(ClearElrRecord)
def _clear_elr(touched: _Touched, r: ClearElrRecord) -> _Touched:
    image = touched.image.topics
    named = [image.by_name[r.topic_name]] if r.topic_name else list(image.by_id.values())
    for topic in named:
        for number, partition in topic.partitions.items():
            if partition.elr or partition.last_known_elr:
                touched.topics.setdefault(topic.id, set()).add(number)
    return touched


@replays(RemoveTopicRecord)
def _remove_topic(touched: _Touched, r: RemoveTopicRecord) -> _Touched:
    name = touched.image.topics.by_id[r.topic_id].name
    touched.topics.pop(r.topic_id, None)
    touched.deleted_topics[r.topic_id] = name
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    if touched.image.configs.get(resource):
        touched.configs.add(resource)
    return touched


@replays(RegisterBrokerRecord)
def _register_broker(touched: _Touched, r: RegisterBrokerRecord) -> _Touched:
    touched.brokers.add(r.broker_id)
    return touched


@replays(UnregisterBrokerRecord)
def _unregister_broker(touched: _Touched, r: UnregisterBrokerRecord) -> _Touched:
    touched.brokers.add(r.broker_id)
    return touched


@replays(BrokerRegistrationChangeRecord)
def _change_broker(touched: _Touched, r: BrokerRegistrationChangeRecord) -> _Touched:
    touched.brokers.add(r.broker_id)
    return touched


@replays(FenceBrokerRecord)
def _fence(touched: _Touched, r: FenceBrokerRecord) -> _Touched:
    touched.brokers.add(r.id)
    return touched


@replays(UnfenceBrokerRecord)
def _unfence(touched: _Touched, r: UnfenceBrokerRecord) -> _Touched:
    touched.brokers.add(r.id)
    return touched


@replays(RegisterControllerRecord)
def _register_controller(touched: _Touched, r: RegisterControllerRecord) -> _Touched:
    touched.controllers.add(r.controller_id)
    return touched


@replays(ConfigRecord)
def _config(touched: _Touched, r: ConfigRecord) -> _Touched:
    touched.configs.add(ConfigResource(ConfigResourceType.of(r.resource_type), r.resource_name))
    return touched


@replays(ClientQuotaRecord)
def _quota(touched: _Touched, r: ClientQuotaRecord) -> _Touched:
    touched.client_quotas.add(entity_in(r))
    return touched


@replays(UserScramCredentialRecord)
def _scram(touched: _Touched, r: UserScramCredentialRecord) -> _Touched:
    touched.scram.add((ScramMechanism.of(r.mechanism), r.name))
    return touched


@replays(RemoveUserScramCredentialRecord)
def _remove_scram(touched: _Touched, r: RemoveUserScramCredentialRecord) -> _Touched:
    touched.scram.add((ScramMechanism.of(r.mechanism), r.name))
    return touched


@replays(DelegationTokenRecord)
def _token(touched: _Touched, r: DelegationTokenRecord) -> _Touched:
    touched.tokens.add(r.token_id)
    return touched


@replays(RemoveDelegationTokenRecord)
def _remove_token(touched: _Touched, r: RemoveDelegationTokenRecord) -> _Touched:
    touched.tokens.add(r.token_id)
    return touched


@replays(FeatureLevelRecord)
def _feature(touched: _Touched, r: FeatureLevelRecord) -> _Touched:
    touched.features = True
    return touched


@replays(ProducerIdsRecord)
def _producer_ids(touched: _Touched, r: ProducerIdsRecord) -> _Touched:
    touched.producer_ids = True
    return touched


TOUCHES: Final[tuple[Callable[..., _Touched], ...]] = (
    _topic, _partition, _partition_change, _clear_elr, _remove_topic, _register_broker, _unregister_broker,
    _change_broker, _fence, _unfence, _register_controller, _config, _quota, _scram, _remove_scram, _token,
    _remove_token, _feature, _producer_ids,
)  # fmt: skip
_TABLE: Final[ReplayTable[_Touched]] = ReplayTable(TOUCHES)


class DeltaBuilder:
    """Follows records from an image onwards: the image so far, and what they touched."""

    __slots__ = ("_runs", "_touched", "before")

    def __init__(self, before: MetadataImage) -> None:
        self.before = before
        self._runs = Runs(before)
        self._touched = _Touched(before)

    @property
    def image(self) -> MetadataImage:
        """Give the image after the records so far."""
        return self._runs.image

    def replay(self, record: Any) -> None:
        """Apply one record; ReplayError when it does not fit, and nothing is changed."""
        touched = self._touched
        run = self._runs.of(record)
        if run is not None:
            if isinstance(run, TopicRun):
                touched.partition = run.partition(record) if type(record) is PartitionChangeRecord else None
            run.add(record)
            if isinstance(run, AclRun):
                touched.acls.append((record.id, run.binding(record.id)))
            else:
                _TABLE.replay(touched, record)
            return
        touched.image = self.image
        after = replay_one(touched.image, record)
        if type(record) in _TABLE:
            _TABLE.replay(touched, record)
        self._runs.image = after

    def build(self, offset: int, epoch: int) -> MetadataDelta:
        """Give the delta, `after` being as of this record."""
        touched = self._touched
        before = self.before.topics.by_id
        return MetadataDelta(
            before=self.before,
            after=self.image.at(offset, epoch),
            topics={topic_id: frozenset(numbers) for topic_id, numbers in touched.topics.items()},
            deleted_topics={i: name for i, name in touched.deleted_topics.items() if i in before},
            brokers=frozenset(touched.brokers),
            controllers=frozenset(touched.controllers),
            configs=frozenset(touched.configs),
            client_quotas=frozenset(touched.client_quotas),
            scram=frozenset(touched.scram),
            tokens=frozenset(touched.tokens),
            acls=tuple(touched.acls),
            features=touched.features,
            producer_ids=touched.producer_ids,
            unclean_elections=touched.unclean_elections,
            elr_elections=touched.elr_elections,
        )


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Give the delta between two images by comparing them: for a snapshot, which came without the steps."""
    old, new = before.topics.by_id, after.topics.by_id
    topics = {
        topic_id: frozenset(_differing(_partitions(old.get(topic_id)), topic.partitions))
        for topic_id, topic in new.items()
        if old.get(topic_id) != topic
    }
    scram = {
        (mechanism, user)
        for mechanism in ScramMechanism
        for user in _differing(
            before.scram.by_mechanism.get(mechanism, Map()), after.scram.by_mechanism.get(mechanism, Map())
        )
    }
    acls = sorted(_differing(before.acls.by_id, after.acls.by_id))
    return MetadataDelta(
        before=before,
        after=after,
        topics=topics,
        deleted_topics={topic_id: topic.name for topic_id, topic in old.items() if topic_id not in new},
        brokers=frozenset(_differing(before.cluster.brokers, after.cluster.brokers)),
        controllers=frozenset(_differing(before.cluster.controllers, after.cluster.controllers)),
        configs=frozenset(_differing(before.configs.by_resource, after.configs.by_resource)),
        client_quotas=frozenset(_differing(before.client_quotas.by_entity, after.client_quotas.by_entity)),
        scram=frozenset(scram),
        tokens=frozenset(_differing(before.tokens.by_id, after.tokens.by_id)),
        acls=tuple((acl_id, after.acls.by_id.get(acl_id)) for acl_id in acls),
        features=before.features != after.features,
        producer_ids=before.producer_ids != after.producer_ids,
        snapshot=True,
    )


def _partitions(topic: TopicImage | None) -> Mapping[int, Any]:
    return {} if topic is None else topic.partitions


def _differing(before: Mapping[K, Any], after: Mapping[K, Any]) -> Iterable[K]:
    if not before:
        return list(after)
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]
