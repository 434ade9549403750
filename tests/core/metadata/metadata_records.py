"""Random, but valid, metadata logs: each record fits the image that those before it make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.model.uuid import Uuid
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.clear_elr_record import ClearElrRecord
from barnabas.wire.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.delegation_token_record import DelegationTokenRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.fence_broker_record import FenceBrokerRecord
from barnabas.wire.records.no_op_record import NoOpRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.producer_ids_record import ProducerIdsRecord
from barnabas.wire.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.wire.records.register_controller_record import RegisterControllerRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.wire.records.topic_record import TopicRecord
from barnabas.wire.records.unfence_broker_record import UnfenceBrokerRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.wire.records.zk_migration_state_record import ZkMigrationStateRecord

Draw = Callable[[st.SearchStrategy[Any]], Any]
TOPIC_NAMES = ("a", "b.c", "b_c", "d-e")
USERS = ("alice", "bob")
FIRST = FeatureLevelRecord(name="metadata.version", feature_level=30)


def a_uuid(n: int) -> Uuid:
    """Give the n-th id that is not reserved."""
    return Uuid((1000 + n).to_bytes(16, "big"))


def _replicas(draw: Draw) -> list[int]:
    return list(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)))


def _topic(draw: Draw, image: MetadataImage) -> Any:
    free = [name for name in TOPIC_NAMES if name not in image.topics.by_name]
    if not free:
        return NoOpRecord()
    return TopicRecord(name=draw(st.sampled_from(free)), topic_id=a_uuid(0))


def _partition(draw: Draw, image: MetadataImage) -> Any:
    topic = draw(st.sampled_from(sorted(image.topics.by_id.values(), key=lambda t: t.name)))
    replicas = _replicas(draw)
    return PartitionRecord(
        partition_id=len(topic.partitions),
        topic_id=topic.id,
        replicas=replicas,
        directories=[a_uuid(r) for r in replicas] if draw(st.booleans()) else [],
        isr=replicas[:1],
        leader=replicas[0],
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
        eligible_leader_replicas=draw(st.sampled_from([None, [], replicas[1:]])),
        last_known_elr=draw(st.sampled_from([None, replicas[:1]])),
    )


def _partition_change(draw: Draw, image: MetadataImage) -> Any:
    choices = [(t, n) for t in image.topics.by_id.values() for n in t.partitions]
    topic, number = draw(st.sampled_from(sorted(choices, key=lambda c: (c[0].name, c[1]))))
    partition = topic.partitions[number]
    record = PartitionChangeRecord(partition_id=number, topic_id=topic.id)
    record.leader = draw(st.sampled_from([-2, -1, *partition.replicas]))
    record.isr = draw(st.sampled_from([None, [], list(partition.replicas)]))
    record.eligible_leader_replicas = draw(st.sampled_from([None, [], list(partition.replicas[1:])]))
    record.last_known_elr = draw(st.sampled_from([None, [], [0]]))
    record.leader_recovery_state = draw(st.sampled_from([-1, 0, 1]))
    if draw(st.booleans()):
        record.replicas = _replicas(draw)
        record.directories = [a_uuid(r) for r in record.replicas]
        record.adding_replicas = draw(st.sampled_from([None, [], [3]]))
        record.removing_replicas = draw(st.sampled_from([None, [], [0]]))
    return record


def _remove_topic(draw: Draw, image: MetadataImage) -> Any:
    return RemoveTopicRecord(topic_id=draw(st.sampled_from(sorted(image.topics.by_id))))


def _clear_elr(draw: Draw, image: MetadataImage) -> Any:
    return ClearElrRecord(topic_name=draw(st.sampled_from(["", *sorted(image.topics.by_name)])))


def _config(draw: Draw, image: MetadataImage) -> Any:
    kind, name = draw(st.sampled_from([(2, "a"), (2, "b.c"), (4, ""), (4, "0"), (32, "g"), (16, "m")]))
    value = draw(st.sampled_from([None, "1", "2"]))
    return ConfigRecord(resource_type=kind, resource_name=name, name=draw(st.sampled_from(["x", "y"])), value=value)


def _register_broker(draw: Draw, image: MetadataImage) -> Any:
    broker = draw(st.integers(0, 3))
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=a_uuid(draw(st.integers(0, 9))),
        broker_epoch=draw(st.integers(0, 9)),
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=1, security_protocol=0)],
        features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        rack=draw(st.sampled_from([None, "r"])),
        fenced=draw(st.booleans()),
        in_controlled_shutdown=draw(st.booleans()),
        log_dirs=[a_uuid(broker), a_uuid(broker + 10)],
        cordoned_log_dirs=draw(st.sampled_from([None, [], [a_uuid(broker)]])),
    )


def _change_broker(draw: Draw, image: MetadataImage) -> Any:
    broker = image.cluster.brokers[draw(st.sampled_from(sorted(image.cluster.brokers)))]
    return draw(
        st.sampled_from(
            [
                UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
                FenceBrokerRecord(id=broker.id, epoch=broker.epoch),
                UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch),
                *(
                    BrokerRegistrationChangeRecord(
                        broker_id=broker.id,
                        broker_epoch=broker.epoch,
                        fenced=fenced,
                        in_controlled_shutdown=shutdown,
                        log_dirs=dirs,
                        cordoned_log_dirs=cordoned,
                    )
                    for fenced in (-1, 0, 1)
                    for shutdown in (0, 1)
                    for dirs in ([], [a_uuid(77)])
                    for cordoned in (None, [], [a_uuid(77)])
                ),
            ]
        )
    )


def _controller(draw: Draw, image: MetadataImage) -> Any:
    return RegisterControllerRecord(controller_id=draw(st.integers(0, 3)), incarnation_id=a_uuid(5))


def _quota(draw: Draw, image: MetadataImage) -> Any:
    parts = [
        [EntityData(entity_type="user", entity_name="alice")],
        [EntityData(entity_type="user", entity_name=None)],
        [EntityData(entity_type="client-id", entity_name="c"), EntityData(entity_type="user", entity_name="bob")],
    ]
    return ClientQuotaRecord(
        entity=draw(st.sampled_from(parts)),
        key=draw(st.sampled_from(["producer_byte_rate", "request_percentage"])),
        value=draw(st.floats(1, 1e9)),
        remove=draw(st.booleans()),
    )


def _acl(draw: Draw, image: MetadataImage) -> Any:
    return AccessControlEntryRecord(
        id=a_uuid(0),
        resource_type=draw(st.integers(2, 7)),
        resource_name=draw(st.sampled_from(["x", "y"])),
        pattern_type=draw(st.sampled_from([3, 4])),
        principal="User:" + draw(st.sampled_from(USERS)),
        host="*",
        operation=draw(st.integers(2, 15)),
        permission_type=draw(st.sampled_from([2, 3])),
    )


def _remove_acl(draw: Draw, image: MetadataImage) -> Any:
    return RemoveAccessControlEntryRecord(id=draw(st.sampled_from(sorted(image.acls.by_id))))


def _scram(draw: Draw, image: MetadataImage) -> Any:
    return UserScramCredentialRecord(
        name=draw(st.sampled_from(USERS)),
        mechanism=draw(st.sampled_from([1, 2])),
        salt=draw(st.binary(max_size=3)),
        stored_key=b"k",
        server_key=b"s",
        iterations=4096,
    )


def _remove_scram(draw: Draw, image: MetadataImage) -> Any:
    known = [(m, u) for m, users in image.scram.by_mechanism.items() for u in users]
    mechanism, user = draw(st.sampled_from(sorted(known)))
    return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)


def _token(draw: Draw, image: MetadataImage) -> Any:
    ends = draw(st.integers(0, 5))
    return DelegationTokenRecord(
        owner="User:alice", requester="User:bob", renewers=draw(st.lists(st.just("User:carol"), max_size=1)),
        token_id=draw(st.sampled_from("xyz")), max_timestamp=9, expiration_timestamp=ends,
    )  # fmt: skip


def _remove_token(draw: Draw, image: MetadataImage) -> Any:
    return RemoveDelegationTokenRecord(token_id=draw(st.sampled_from(sorted(image.tokens.by_id))))


def _feature(draw: Draw, image: MetadataImage) -> Any:
    return FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)


def _producer_ids(draw: Draw, image: MetadataImage) -> Any:
    block = image.producer_ids.next_producer_id + 1000
    return ProducerIdsRecord(broker_id=1, broker_epoch=draw(st.integers(0, 5)), next_producer_id=block)


def _nothing(draw: Draw, image: MetadataImage) -> Any:
    return draw(st.sampled_from([NoOpRecord(), ZkMigrationStateRecord()]))


def _possible(image: MetadataImage) -> list[Callable[[Draw, MetadataImage], Any]]:
    makers: list[Callable[[Draw, MetadataImage], Any]] = [
        _topic, _config, _register_broker, _controller, _quota, _acl, _scram, _feature, _producer_ids, _nothing,
        _clear_elr, _token,
    ]  # fmt: skip
    if image.topics.by_id:
        makers += [_partition, _partition, _remove_topic]
    if any(t.partitions for t in image.topics.by_id.values()):
        makers += [_partition_change, _partition_change]
    if image.cluster.brokers:
        makers.append(_change_broker)
    if image.acls.by_id:
        makers.append(_remove_acl)
    if any(image.scram.by_mechanism.get(m) for m in ScramMechanism):
        makers.append(_remove_scram)
    if image.tokens.by_id:
        makers.append(_remove_token)
    return makers


@st.composite
def logs(draw: Any, max_size: int = 25) -> list[Any]:
    """Give a log: metadata.version first, ELR on at once in half of them, then anything that fits."""
    records: list[Any] = [FIRST]
    if draw(st.booleans()):
        records.append(_feature(draw, MetadataImage.EMPTY))
    image = MetadataImage.EMPTY
    for record in records:
        image = replay_one(image, record)
    for _ in range(draw(st.integers(0, max_size))):
        makers = [m for m in _possible(image) if m is not _feature]
        record = draw(st.sampled_from(makers))(draw, image)
        if isinstance(record, TopicRecord):
            record.topic_id = a_uuid(len(records))  # an id is never given twice
        if isinstance(record, AccessControlEntryRecord):
            record.id = a_uuid(len(records))
        if not image.levels.elr and isinstance(record, PartitionRecord | PartitionChangeRecord):
            record.eligible_leader_replicas = record.last_known_elr = None
        image = replay_one(image, record)
        records.append(record)
    return records
