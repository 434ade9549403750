"""Groups and offsets <-> the records of `__consumer_offsets`, in the versions that Kafka 4.3 writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.core.groups.classic import EMPTY, STABLE, ClassicGroup, Member
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.records.group_metadata_key import GroupMetadataKey
from barnabas.wire.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION: Final = 1
"""The only version that has a place for an expire timestamp (OffsetCommit requests v2 to v4)."""


def group_metadata(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Describe the group's generation; assignments: by member id, one for every member."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=-1 if group.timestamp_ms is None else group.timestamp_ms,
        members=[_member_metadata(m, group.protocol or "", assignments) for m in group.members.values()],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def new_group(group: ClassicGroup) -> CoordinatorRecord:
    """Describe a group that was just created and has no generation yet."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=-1 if group.timestamp_ms is None else group.timestamp_ms,
        members=[],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Say that the group is gone."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def offset_commit(
    group_id: str, topic: str, partition: int, value: OffsetCommitValue, version: int
) -> CoordinatorRecord:
    """Say what a group committed for a partition."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Say that a committed offset is gone."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_from(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Give the group that a record describes: STABLE with its members, or EMPTY."""
    group = ClassicGroup(
        group_id,
        None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        STABLE if value.members else EMPTY,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        generation=value.generation,
        leader=value.leader,
    )
    for m in value.members:
        timeout = m.session_timeout if m.rebalance_timeout == -1 else m.rebalance_timeout
        group.add(
            Member(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                timeout,
                m.session_timeout,
                value.protocol_type,
                ((value.protocol or "", bytes(m.subscription)),),
                bytes(m.assignment),
            )
        )
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def _member_metadata(member: Member, protocol: str, assignments: Mapping[str, bytes]) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignments[member.member_id],
    )
