"""What each record of a consumer group changes in the group. Nothing else changes one.

Logs may begin anywhere after compaction: a tombstone for what is not there changes nothing, and whatever names a
group or a member makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.core.groups.consumer import records
from barnabas.core.groups.consumer.group import ConsumerGroup, ResolvedRegex
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.records.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from barnabas.wire.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from barnabas.wire.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.wire.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from barnabas.wire.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.wire.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.wire.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.wire.records.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from barnabas.wire.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from barnabas.wire.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from barnabas.wire.records.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from barnabas.wire.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from barnabas.wire.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.wire.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def _metadata(
    group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> ConsumerGroup | None:
    if value is None:
        return None
    return group._replace(epoch=value.epoch, metadata_hash=value.metadata_hash)


def _topics(
    group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> ConsumerGroup:
    return group._replace(has_topics_record=value is not None)


def _member_metadata(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> ConsumerGroup:
    if value is None:
        return group.without_member(key.member_id)
    old = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    member = old._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        names=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=records.classic_from(value.classic_member_metadata),
    )
    return group.with_member(member)


def _target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> ConsumerGroup:
    if value is not None:
        target = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions if one.partitions}
        return group._replace(target=group.target.set(key.member_id, target))
    if key.member_id not in group.target:
        return group
    return group._replace(target=group.target.delete(key.member_id))


def _target_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> ConsumerGroup:
    if value is None:
        return group._replace(assignment_epoch=-1, assignment_ms=0)
    return group._replace(assignment_epoch=value.assignment_epoch, assignment_ms=value.assignment_timestamp)


def _current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerGroup:
    if value is None:
        return group.without_assignment(key.member_id)
    old = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    member = old._replace(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=records.state_from(value.state),
        assigned=records.owned_from(value.assigned_partitions, value.member_epoch),
        pending_revocation=records.owned_from(value.partitions_pending_revocation, value.member_epoch),
    )
    return group.with_member(member)


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> ConsumerGroup:
    regex = key.regular_expression
    if value is not None:
        one = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        return group._replace(resolved=group.resolved.set(regex, one))
    return group._replace(resolved=group.resolved.delete(regex)) if regex in group.resolved else group


_BY_KEY: Final[dict[type, Callable[..., ConsumerGroup | None]]] = {
    ConsumerGroupMetadataKey: _metadata,
    ConsumerGroupPartitionMetadataKey: _topics,
    ConsumerGroupMemberMetadataKey: _member_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupTargetAssignmentMetadataKey: _target_metadata,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupRegularExpressionKey: _regex,
}
KEYS: Final = frozenset(_BY_KEY)
"""The classes of keys of consumer groups."""


def replay(group: ConsumerGroup | None, key: Any, value: Any) -> ConsumerGroup | None:
    """Give the group after one record; None when it is gone, or when the record ends what was not there."""
    if group is None:
        if value is None:
            return None
        group = ConsumerGroup(key.group_id)
    return _BY_KEY[type(key)](group, key, value)


class Draft:
    """The group as a turn changes it: each record takes effect here at once, so that the next decision sees it."""

    __slots__ = ("group", "records")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []

    def write(self, *made: CoordinatorRecord) -> None:
        """Append records, none of which ends the group."""
        for record in made:
            group = replay(self.group, record.key, record.value)
            assert group is not None, "a draft does not end its group"
            self.group = group
            self.records.append(record)
