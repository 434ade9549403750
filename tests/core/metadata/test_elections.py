"""Elections on demand and by the clock, ISRs and directories that brokers report, reassignments, producer ids."""

from __future__ import annotations

import pytest

from barnabas.core.metadata.config_changes import Op, incremental_alter_configs
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.elections import balance_leaders, elect_leaders, elect_unclean
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition_requests import alter_partition, assign_replicas_to_dirs
from barnabas.core.metadata.producer_ids import ProducerIdsImage, allocate
from barnabas.core.metadata.reassignments import alter_reassignments, list_reassignments
from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages import alter_partition as alter
from barnabas.wire.messages import assign_replicas_to_dirs as assign
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.core.metadata.clusters import SCHEMA, a_cluster, a_partition, apply, with_topic
from tests.core.metadata.metadata_records import a_uuid

E = ErrorCode


def a_mixed_topic() -> MetadataImage:
    """Partition 0 is led by 2 though 1 is preferred, 1 is as it should be, 2 has lost its only replica in sync."""
    image = a_cluster(1, 2, 3, fenced=[3])
    return with_topic(
        image, "t", a_partition([1, 2], leader=2), a_partition([1, 2]), a_partition([3, 1], [3], leader=-1)
    )


def elected(image: MetadataImage, election_type: int, partitions: list[int] | None) -> dict[int, ErrorCode]:
    wanted = None if partitions is None else [TopicPartitions(topic="t", partitions=partitions)]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=wanted)
    [topic] = elect_leaders(image, request, SCHEMA).response.replica_election_results
    return {p.partition_id: ErrorCode(p.error_code) for p in topic.partition_result}


def test_elections_on_demand() -> None:
    image = a_mixed_topic()
    assert elected(image, 0, [0, 1, 2, 9]) == {
        0: E.NONE,
        1: E.ELECTION_NOT_NEEDED,
        2: E.PREFERRED_LEADER_NOT_AVAILABLE,
        9: E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert elected(image, 0, None) == {0: E.NONE, 2: E.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elected(image, 1, [0, 2]) == {0: E.ELECTION_NOT_NEEDED, 2: E.NONE}
    with pytest.raises(ApiError) as error:
        elected(image, 7, None)
    assert error.value.code is E.INVALID_REQUEST


def test_leadership_goes_back_by_itself_and_uncleanly_only_where_allowed() -> None:
    image = a_mixed_topic()
    after = apply(image, balance_leaders(image, SCHEMA).records)
    assert [after.topics.by_name["t"].partitions[i].leader for i in range(3)] == [1, 1, -1]
    assert elect_unclean(after, SCHEMA).records == ()
    topic = ConfigResource(ConfigResourceType.TOPIC, "t")
    allowed = incremental_alter_configs(after, {topic: {"unclean.leader.election.enable": (Op.SET, "true")}}, SCHEMA)
    after = apply(after, allowed.records)
    after = apply(after, elect_unclean(after, SCHEMA).records)
    partition = after.topics.by_name["t"].partitions[2]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def proposed(image: MetadataImage, broker: int = 1, version: int = 3, **fields: object) -> alter.ResponsePartitionData:
    isr = fields.pop("isr", [1, 2])
    assert isinstance(isr, list)
    data = alter.RequestPartitionData(new_isr=isr)
    if version >= 3:
        data.new_isr_with_epochs = [alter.BrokerState(broker_id=b, broker_epoch=100 + b) for b in isr]
    for name, value in fields.items():
        setattr(data, name, value)
    topics = [alter.RequestTopicData(topic_id=a_uuid(900), partitions=[data])]
    request = alter.AlterPartitionRequest(broker_id=broker, broker_epoch=100 + broker, topics=topics)
    decision = alter_partition(image, request, SCHEMA, version=version)
    [topic] = decision.response.topics
    [partition] = topic.partitions
    if not partition.error_code:
        after = apply(image, decision.records).topics.by_id[a_uuid(900)].partitions[0]
        assert (partition.isr, partition.partition_epoch) == (list(after.isr), after.partition_epoch)
    return partition


def a_led(*isr: int, **rest: int) -> MetadataImage:
    image = a_cluster(1, 2, 3, fenced=[3])
    return with_topic(image, "t", a_partition([1, 2, 3], isr or (1,), leader_epoch=4, partition_epoch=6, **rest))


NOW = {"leader_epoch": 4, "partition_epoch": 6}


def test_a_leader_grows_and_shrinks_its_isr() -> None:
    for version in (2, 3):
        assert proposed(a_led(1), version=version, **NOW).isr == [1, 2]
    assert proposed(a_led(1, 2), isr=[1], **NOW).isr == [1]
    recovered = proposed(a_led(1, leader_recovery_state=1), isr=[1], leader_recovery_state=0, **NOW)
    assert recovered.leader_recovery_state == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 5, "partition_epoch": 6}, E.NOT_CONTROLLER),
        ({"leader_epoch": 4, "partition_epoch": 7}, E.NOT_CONTROLLER),
        ({"leader_epoch": 3, "partition_epoch": 6}, E.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 4, "partition_epoch": 5}, E.INVALID_UPDATE_VERSION),
        ({**NOW, "broker": 2}, E.INVALID_REQUEST),
        ({**NOW, "isr": [1, 9]}, E.INVALID_REQUEST),
        ({**NOW, "isr": [2]}, E.INVALID_REQUEST),
        ({**NOW, "isr": [1, 1]}, E.INVALID_REQUEST),
        ({**NOW, "leader_recovery_state": 1}, E.INVALID_REQUEST),
        ({**NOW, "leader_recovery_state": 1, "isr": [1]}, E.INVALID_REQUEST),
        ({**NOW, "leader_recovery_state": 2, "isr": [1]}, E.INVALID_REQUEST),
        ({**NOW, "isr": [1, 3]}, E.INELIGIBLE_REPLICA),
        ({**NOW, "partition_index": 9}, E.UNKNOWN_TOPIC_OR_PARTITION),
        (
            {**NOW, "new_isr_with_epochs": [alter.BrokerState(broker_id=b, broker_epoch=5) for b in (1, 2)]},
            E.INELIGIBLE_REPLICA,
        ),
    ],
)
def test_an_isr_that_does_not_fit_is_refused(fields: dict[str, object], code: ErrorCode) -> None:
    assert ErrorCode(proposed(a_led(1), **fields).error_code) is code  # type: ignore[arg-type]


def test_a_broker_says_where_its_replicas_are() -> None:
    def asked(image: MetadataImage, directory: int, partition: int = 0) -> tuple[ErrorCode, PartitionRegistration]:
        wanted = assign.RequestDirectoryData(
            id=a_uuid(directory),
            topics=[
                assign.RequestTopicData(
                    topic_id=a_uuid(900), partitions=[assign.RequestPartitionData(partition_index=partition)]
                )
            ],
        )
        request = assign.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=101, directories=[wanted])
        decision = assign_replicas_to_dirs(image, request, SCHEMA)
        code = decision.response.directories[0].topics[0].partitions[0].error_code
        return ErrorCode(code), apply(image, decision.records).topics.by_name["t"].partitions[0]

    image = with_topic(a_cluster(1, 2), "t", a_partition([1, 2]), a_partition([2]))
    code, partition = asked(image, 1)
    assert (code, partition.directories[0], partition.leader) == (E.NONE, a_uuid(1), 1)
    code, partition = asked(image, 77)
    assert (code, partition.directories[0]) == (E.NONE, a_uuid(77))
    assert (partition.leader, partition.isr) == (2, (2,)), "directory 77 is not online"
    assert asked(image, 1, 1)[0] is E.NOT_LEADER_OR_FOLLOWER
    assert asked(image, 1, 9)[0] is E.UNKNOWN_TOPIC_OR_PARTITION


def reassigned(
    image: MetadataImage, replicas: list[int] | None, *, resize: bool = True, name: str = "t"
) -> tuple[ErrorCode, MetadataImage]:
    topics = [ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=resize)
    decision = alter_reassignments(image, request, SCHEMA)
    code = ErrorCode(decision.response.responses[0].partitions[0].error_code)
    return code, apply(image, decision.records)


def test_replicas_are_moved_and_moves_cancelled() -> None:
    image = with_topic(a_cluster(1, 2, 3), "t", a_partition([1, 2]))
    assert reassigned(image, None)[0] is E.NO_REASSIGNMENT_IN_PROGRESS
    assert reassigned(image, [9])[0] is E.INVALID_REPLICA_ASSIGNMENT
    assert reassigned(image, [1], name="x")[0] is E.UNKNOWN_TOPIC_OR_PARTITION
    assert reassigned(image, [1], resize=False)[0] is E.INVALID_REPLICATION_FACTOR
    code, moving = reassigned(image, [3, 2])
    assert code is E.NONE
    partition = moving.topics.by_name["t"].partitions[0]
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((3, 2, 1), (3,), (1,))
    [listed] = list_reassignments(moving, ListPartitionReassignmentsRequest()).topics
    assert listed.partitions[0].adding_replicas == [3]
    code, back = reassigned(moving, None)
    assert code is E.NONE
    partition = back.topics.by_name["t"].partitions[0]
    assert (sorted(partition.replicas), partition.reassigning) == ([1, 2], False)
    assert list_reassignments(back, ListPartitionReassignmentsRequest()).topics == []


def test_producer_ids_are_given_in_blocks_and_never_twice() -> None:
    image = MetadataImage.EMPTY
    starts = []
    for _ in range(3):
        decision = allocate(image.producer_ids, 1, 101)
        starts.append(decision.response)
        image = apply(image, decision.records)
    assert starts == [(0, 1000), (1000, 1000), (2000, 1000)]
    with pytest.raises(ApiError) as error:
        allocate(ProducerIdsImage(2**63 - 1000, 1, 1), 1, 101)
    assert error.value.code is E.UNKNOWN_SERVER_ERROR
