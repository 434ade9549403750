"""A shard with a hand on its clock: what the shell does, without a log, so that a test reads like a conversation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Now, Step
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.image import ShardImage
from barnabas.core.groups.joining import Joining
from barnabas.core.groups.shard import GroupShard
from barnabas.model.uuid import Uuid
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

WALL_START_MS = 1_700_000_000_000


@dataclass(eq=False)
class Parked:
    """A request that is answered later, or was: response."""

    response: Any = None

    @property
    def error(self) -> ErrorCode:
        assert self.response is not None, "not answered yet"
        return ErrorCode(self.response.error_code)


@dataclass
class Driver:
    """Carries steps out. hold: records stay uncommitted until `commit` or `fail` says so."""

    config: GroupConfig = field(default_factory=GroupConfig)
    hold: bool = False
    now_ms: int = 0
    log: list[tuple[CoordinatorRecord, ShardImage]] = field(default_factory=list)
    held: deque[Step[Any]] = field(default_factory=deque)
    version: int = 9

    def __post_init__(self) -> None:
        self._ids = 0
        self.shard = GroupShard(self.config, self.new_uuid)
        self.carry(self.shard.loaded(self.now))

    def new_uuid(self) -> Uuid:
        self._ids += 1
        return Uuid(self._ids.to_bytes(16, "big"))

    @property
    def now(self) -> Now:
        return Now(WALL_START_MS + self.now_ms, self.now_ms)

    @property
    def records(self) -> list[CoordinatorRecord]:
        return [record for record, _ in self.log]

    def carry(self, step: Step[Any]) -> Any:
        for reply in step.replies:
            assert isinstance(reply.waiter, Parked)
            assert reply.waiter.response is None, "answered twice"
            reply.waiter.response = reply.response
        for record in step.records:
            if step.replay:
                self.shard.replay(record, At(len(self.log), now_ms=self.now.wall_ms))
            self.log.append((record, self.shard.image))
        if step.resume is not None:
            if self.hold:
                self.held.append(step)
            else:
                self.carry(step.resume(ErrorCode.NONE, self.now))
        return step.response

    def settle(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Let the oldest held step go on."""
        resume = self.held.popleft().resume
        assert resume is not None
        self.carry(resume(error, self.now))

    def advance(self, ms: int) -> None:
        """Let time pass, doing each thing when it is due."""
        end = self.now_ms + ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            step = self.shard.tick(self.now)
            if step is not None:
                self.carry(step)
        self.now_ms = end

    # requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"r"),),
        protocol_type: str = "test",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int | None = None,
        client_id: str = "c",
    ) -> Parked:
        parked = Parked()
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        version = self.version if version is None else version
        self.carry(self.shard.join(Joining(request, client_id, "/1.2.3.4", version, parked), self.now))
        return parked

    def join_new(self, **how: Any) -> Parked:
        """Join as a dynamic member does: learn the id, come back with it."""
        first = self.join(**how)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.response.member_id, **how)

    def sync(
        self,
        joined: JoinGroupResponse,
        assignment: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        **fields: Any,
    ) -> Parked:
        parked = Parked()
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignment or {}).items()],
            **fields,
        )
        self.carry(self.shard.sync(request, parked, self.now))
        return parked

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> Any:
        request = HeartbeatRequest(
            group_id=group, member_id=member_id, generation_id=generation, group_instance_id=instance
        )
        return self.carry(self.shard.heartbeat(request, self.now))

    def leave(self, *members: MemberIdentity | str, group: str = "g") -> Any:
        who = [m if isinstance(m, MemberIdentity) else MemberIdentity(member_id=m) for m in members]
        return self.carry(self.shard.leave(LeaveGroupRequest(group_id=group, members=who), self.now))

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        version: int = 9,
        metadata: str = "",
        retention_ms: int = -1,
        instance: str | None = None,
    ) -> Any:
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, index), offset in offsets.items()
            ],
        )
        return self.carry(self.shard.commit_offsets(request, version, self.now))

    # whole conversations

    def stable_group(
        self, count: int = 1, *, instances: Iterable[str | None] | None = None, **how: Any
    ) -> list[JoinGroupResponse]:
        """Bring members in and assign each its own member id as bytes; the leader comes first."""
        names: list[str | None] = [None] * count if instances is None else list(instances)
        parked = [self.join_new(**how) if name is None else self.join(instance=name, **how) for name in names]
        self.advance(self.config.initial_rebalance_delay_ms * (1 + len(names)))
        joined = [one.response for one in parked]
        assert all(j.error_code == ErrorCode.NONE for j in joined)
        synced = self.sync_all(joined)
        assert all(s.error_code == ErrorCode.NONE for s in synced)
        return sorted(joined, key=lambda j: j.member_id != j.leader)

    def sync_all(self, joined: Sequence[JoinGroupResponse], *, group: str = "g") -> list[SyncGroupResponse]:
        assignment = {j.member_id: j.member_id.encode() for j in joined}
        parked = [self.sync(j, assignment if j.member_id == j.leader else None, group=group) for j in joined]
        return [p.response for p in parked]
