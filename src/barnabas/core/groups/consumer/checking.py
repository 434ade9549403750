"""ConsumerGroupHeartbeat: what a request may say, and whether the coordinator knows its member as it knows itself."""

from __future__ import annotations

from collections.abc import Container, Iterable

from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember
from barnabas.core.groups.consumer.reconciling import Held
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

FIRST_VERSION_WITH_OWN_ID = 1
"""Since then members make their ids themselves (KIP-1082)."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Container[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR when the request cannot mean anything."""
    epoch = request.member_epoch
    if version >= FIRST_VERSION_WITH_OWN_ID or epoch > 0 or epoch == LEAVE_EPOCH:
        _require(bool(request.member_id.strip()), "MemberId can't be empty.")
    _require(bool(request.group_id.strip()), "GroupId can't be empty.")
    _require(request.instance_id is None or bool(request.instance_id.strip()), "InstanceId can't be empty.")
    _require(request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty.")
    if epoch == 0:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        held = request.topic_partitions
        _require(held is not None and not held, "TopicPartitions must be empty when (re-)joining.")
        subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        _require(subscribed, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVE_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(epoch > STATIC_LEAVE_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {request.server_assignor} is not supported.")


def _require(ok: bool, otherwise: str) -> None:
    if not ok:
        raise ApiError(ErrorCode.INVALID_REQUEST, otherwise)


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Give the member; UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Give the member of the instance; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another stands for it now."""
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        message = f"Instance id {instance_id} belongs to member {member.member_id} now, not to {member_id}."
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, message)
    return member


def identified_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Give the member that LeaveGroup means: an instance alone is enough; raises as the two above."""
    if instance_id is None:
        return known_member(group, member_id)
    standing = group.static_members.get(instance_id, "")
    return known_static_member(group, member_id or standing, instance_id)


def check_epoch(member: ConsumerMember, epoch: int, held: Iterable[Held] | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the member is where we think, or lost our last answer, or begins anew with 0."""
    if epoch in (0, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _holds_no_more(member, held):
        return
    message = f"The member is in epoch {member.epoch}, not {epoch}. It must give up all partitions and join again."
    raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _holds_no_more(member: ConsumerMember, held: Iterable[Held] | None) -> bool:
    """Whether all that the member holds is its own still; not when it does not say what it holds.

    A topic of which it holds nothing counts as well, as with Kafka.
    """
    if held is None:
        return False
    assigned = member.assigned
    return all(one.topic_id in assigned and assigned[one.topic_id].keys() >= set(one.partitions) for one in held)
