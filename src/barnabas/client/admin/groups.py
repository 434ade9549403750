"""Admin: consumer groups and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.client.cluster import CoordinatorKind
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import UnsupportedVersionError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.message import decode_from
from barnabas.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment

CONSUMER: Final = "consumer"
_BY_NAME_VERSION: Final = 9
"""The newest version of OffsetCommit and OffsetFetch that names topics; later ones want topic ids."""

_CONSUMER_MEMBER: Final = 1
"""ConsumerGroupDescribe's member type of those that speak the consumer protocol; 0: the classic one."""


class CommittedOffset(NamedTuple):
    """An offset that a group has committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group. epoch, target: only in groups of the consumer protocol (KIP-848); upgraded: whether it
    speaks that protocol itself, None where that is not known (KIP-1099)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group as its coordinator describes it. type: classic or consumer."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: int
    epoch: int | None = None
    target_epoch: int | None = None


class GroupsAdmin(ClusterAdmin):
    """Operations on groups."""

    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        """Give the groups of all coordinators, by name. states, types: only these; empty: all."""
        await self.cluster.retry(lambda: self.cluster.refresh(()))
        found: dict[str, ListedGroup] = {}
        for node in sorted(self.cluster.nodes):
            request = ListGroupsRequest()
            version = (await self.cluster.channel(node)).versions(request)
            if version >= 4:
                request.states_filter = list(states)
            if version >= 5:
                request.types_filter = list(types)
            response: ListGroupsResponse = await self.cluster.call_node(node, request, version=version)
            check(response.error_code)
            found |= {g.group_id: g for g in response.groups}
        return [found[name] for name in sorted(found)]

    async def describe_group(self, group: str) -> GroupInfo:
        """Give one group; ApiError when it is refused, GROUP_ID_NOT_FOUND when there is none."""
        try:
            return await self._describe_consumer_group(group)
        except UnsupportedVersionError:
            return await self._describe_classic_group(group)
        except ApiError as e:
            if e.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
            return await self._describe_classic_group(group)

    async def _describe_consumer_group(self, group: str) -> GroupInfo:
        response: ConsumerGroupDescribeResponse = await self._coordinated(
            group, ConsumerGroupDescribeRequest(group_ids=[group])
        )
        found = response.groups[0]
        check(found.error_code, found.error_message)
        members = tuple(
            GroupMember(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                _partitions(m.assignment),
                m.member_epoch,
                _partitions(m.target_assignment),
                None if m.member_type < 0 else m.member_type == _CONSUMER_MEMBER,
            )
            for m in found.members
        )
        return GroupInfo(
            group,
            "consumer",
            found.group_state,
            CONSUMER,
            found.assignor_name,
            members,
            await self.cluster.coordinator(CoordinatorKind.GROUP, group),
            found.group_epoch,
            found.assignment_epoch,
        )

    async def _describe_classic_group(self, group: str) -> GroupInfo:
        response: DescribeGroupsResponse = await self._coordinated(group, DescribeGroupsRequest(groups=[group]))
        found = response.groups[0]
        check(found.error_code, found.error_message)
        if found.group_state == "Dead":
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group!r}")
        consumer = found.protocol_type in (CONSUMER, "")
        members = tuple(
            GroupMember(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                assigned_partitions(m.member_assignment) if consumer else (),
            )
            for m in found.members
        )
        return GroupInfo(
            group,
            "classic",
            found.group_state,
            found.protocol_type,
            found.protocol_data,
            members,
            await self.cluster.coordinator(CoordinatorKind.GROUP, group),
        )

    async def delete_groups(self, groups: Sequence[str]) -> dict[str, ApiError | None]:
        """Delete groups without members; give how each went."""
        results: dict[str, ApiError | None] = {}
        for group in groups:
            response: DeleteGroupsResponse = await self._coordinated(group, DeleteGroupsRequest(groups_names=[group]))
            results |= {r.group_id: refusal(r.error_code) for r in response.results}
        return results

    async def group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Give what a group has committed, for these partitions or for all; one without an offset is left out."""
        by_topic = None if partitions is None else _by_topic(partitions)
        return await self.cluster.retry(lambda: self._fetch_offsets(group, by_topic, require_stable))

    async def _fetch_offsets(
        self, group: str, by_topic: Mapping[str, list[int]] | None, require_stable: bool
    ) -> dict[TopicPartition, CommittedOffset]:
        request = OffsetFetchRequest(require_stable=require_stable)
        channel = await self.cluster.channel(await self.cluster.coordinator(CoordinatorKind.GROUP, group))
        version = channel.versions(request, max_version=_BY_NAME_VERSION)
        if version < 7:
            request.require_stable = False
        if version < 8:
            request.group_id = group
            request.topics = (
                None
                if by_topic is None
                else [OffsetFetchRequestTopic(name=t, partition_indexes=ps) for t, ps in by_topic.items()]
            )
        else:
            topics = (
                None
                if by_topic is None
                else [OffsetFetchRequestTopics(name=t, partition_indexes=ps) for t, ps in by_topic.items()]
            )
            request.groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
        response: OffsetFetchResponse = await self._coordinated(group, request, version=version)
        found: Any = response if version < 8 else response.groups[0]
        self._check_coordinator(group, found.error_code)
        offsets = {}
        for topic in found.topics:
            for p in topic.partitions:
                check(p.error_code)
                if p.committed_offset >= 0:
                    offsets[TopicPartition(topic.name, p.partition_index)] = CommittedOffset(
                        p.committed_offset, p.committed_leader_epoch, p.metadata or ""
                    )
        return offsets

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> dict[TopicPartition, ApiError | None]:
        """Commit offsets; give how each partition went. Without a member: as an administrator, into a group
        that has no members."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=p,
                            committed_offset=offsets[TopicPartition(topic, p)].offset,
                            committed_leader_epoch=offsets[TopicPartition(topic, p)].leader_epoch,
                            committed_metadata=offsets[TopicPartition(topic, p)].metadata,
                        )
                        for p in numbers
                    ],
                )
                for topic, numbers in _by_topic(offsets).items()
            ],
        )

        async def once() -> dict[TopicPartition, ApiError | None]:
            response: OffsetCommitResponse = await self._coordinated(group, request, max_version=_BY_NAME_VERSION)
            results = {}
            for t in response.topics:
                for p in t.partitions:
                    self._check_coordinator(group, p.error_code, only_retriable=True)
                    results[TopicPartition(t.name, p.partition_index)] = refusal(p.error_code)
            return results

        return await self.cluster.retry(once)

    async def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """Forget committed offsets; give how each partition went."""
        response: OffsetDeleteResponse = await self._coordinated(
            group,
            OffsetDeleteRequest(
                group_id=group,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in numbers]
                    )
                    for topic, numbers in _by_topic(partitions).items()
                ],
            ),
        )
        check(response.error_code)
        return {
            TopicPartition(t.name, p.partition_index): refusal(p.error_code)
            for t in response.topics
            for p in t.partitions
        }

    async def remove_members(self, group: str, members: Sequence[GroupMember], reason: str) -> None:
        """Make members leave a group."""
        response: LeaveGroupResponse = await self._coordinated(
            group,
            LeaveGroupRequest(
                group_id=group,
                members=[
                    MemberIdentity(
                        member_id="" if m.instance_id else m.member_id, group_instance_id=m.instance_id, reason=reason
                    )
                    for m in members
                ],
            ),
        )
        check(response.error_code)
        for member in response.members:
            check(member.error_code)

    async def _coordinated(self, group: str, request: Any, **how: Any) -> Any:
        async def once() -> Any:
            response = await self.cluster.call_coordinator(CoordinatorKind.GROUP, group, request, **how)
            for element in (*getattr(response, "groups", ()), *getattr(response, "results", ())):
                self._check_coordinator(group, element.error_code, only_retriable=True)
            return response

        return await self.cluster.retry(once)

    def _check_coordinator(self, group: str, code: int, *, only_retriable: bool = False) -> None:
        moved = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if moved:
            self.cluster.forget_coordinator(CoordinatorKind.GROUP, group)
        if moved or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not only_retriable:
            check(code)


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Give the partitions in a member's assignment (ConsumerProtocolAssignment behind its version)."""
    if len(assignment) < 2:
        return ()
    version = min(int.from_bytes(assignment[:2], "big", signed=True), ConsumerProtocolAssignment.MAX_VERSION)
    try:
        made, _ = decode_from(ConsumerProtocolAssignment, max(version, 0), assignment, 2)
    except ProtocolError:
        return ()  # another protocol's bytes under the consumer name: shown without partitions
    return tuple(TopicPartition(t.topic, p) for t in made.assigned_partitions for p in t.partitions)


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(t.topic_name, p) for t in assignment.topic_partitions for p in t.partitions)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return grouped
