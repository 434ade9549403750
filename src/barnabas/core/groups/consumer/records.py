"""Consumer groups <-> the records of `__consumer_offsets`, in the versions that Kafka 4.3 writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.core.groups.consumer.group import ConsumerGroup, ResolvedRegex
from barnabas.core.groups.consumer.member import ClassicProtocols, ConsumerMember, MemberState, Owned, Target
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.records.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from barnabas.wire.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from barnabas.wire.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.wire.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.wire.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.wire.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.wire.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.wire.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from barnabas.wire.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from barnabas.wire.records.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from barnabas.wire.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.wire.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.wire.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

VERSION: Final = 0
"""Of all values of consumer groups; what was added since stands in tagged fields."""


def member_metadata(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Say what the member told of itself."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.names),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=said) for name, said in classic.protocols],
        ),
    )
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, VERSION
    )


def classic_from(value: ClassicMemberMetadata | None) -> ClassicProtocols | None:
    """Give what a record says of a member that speaks the classic protocol."""
    if value is None:
        return None
    protocols = tuple((one.name, bytes(one.metadata)) for one in value.supported_protocols)
    return ClassicProtocols(value.session_timeout_ms, protocols)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Begin a group epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value, VERSION)


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    """End the description of topics that coordinators wrote before Kafka 4.1."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def target(group_id: str, member_id: str, partitions: Target) -> CoordinatorRecord:
    """Say what a member shall have."""
    topics = [TopicPartition(topic_id=topic, partitions=sorted(wanted)) for topic, wanted in sorted(partitions.items())]
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics),
        VERSION,
    )


def target_epoch(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    """Say for which group epoch, and when, the target was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value, VERSION)


def current(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Say what a member has, and how far it is."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value, VERSION)


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic, partitions=sorted(mine), assignment_epochs=[mine[partition] for partition in sorted(mine)]
        )
        for topic, mine in sorted(owned.items())
    ]


def owned_from(topics: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """Give what a member has; records from before KIP-1251 do not say since when: then the member's epoch stands."""
    owned = {}
    for one in topics:
        epochs: Sequence[int] = one.assignment_epochs or ()
        if len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        if one.partitions:
            owned[one.topic_id] = dict(zip(one.partitions, epochs, strict=True))
    return owned


def state_from(value: int) -> MemberState:
    """Give the state that a record names, UNKNOWN for one that we do not know."""
    try:
        return MemberState(value)
    except ValueError:
        return MemberState.UNKNOWN


def resolved(group_id: str, regex: str, one: ResolvedRegex) -> CoordinatorRecord:
    """Say which topics a regular expression matched."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(one.topics), version=one.version, timestamp=one.resolved_ms
    )
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value, VERSION
    )


def resolved_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Say that nobody asks for the regular expression any more."""
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Say that a member is gone, with all that it had and should have had."""
    who = {"group_id": group_id, "member_id": member_id}
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(**who), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(**who), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(**who), None),
    ]


def group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Say that a group is gone."""
    group_id = group.group_id
    whom = [{"group_id": group_id, "member_id": member_id} for member_id in sorted(group.members)]
    return [
        *(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(**who), None) for who in whom),
        *(CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(**who), None) for who in whom),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(CoordinatorRecord(ConsumerGroupMemberMetadataKey(**who), None) for who in whom),
        *(resolved_tombstone(group_id, regex) for regex in sorted(group.resolved)),
        topics_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
