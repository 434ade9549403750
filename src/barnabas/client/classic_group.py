"""Membership of a classic group, whatever the group is for: join, have work given out, keep the heart beating, leave.

States: out -> joining -> member -> joining again when the group rebalances. What members tell each other, and who gets
what, is a `MemberProtocol`'s: consumers' is in `membership`, Connect workers' in `barnabas.connect.group_member`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from barnabas.client.cluster import Cluster, CoordinatorKind
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_FORGOTTEN: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """How patient a group is with a member, in ms: silent, slow to join again, between two heartbeats."""

    session_ms: int
    rebalance_ms: int
    heartbeat_ms: int


@dataclass(frozen=True, slots=True)
class Election:
    """What the leader of a generation is told. members: what each said of itself, in the order of the coordinator."""

    protocol: str
    generation: int
    leader_id: str
    members: Mapping[str, bytes]


class MemberProtocol(Protocol):
    """What a kind of group is about."""

    @property
    def type(self) -> str:
        """Give the protocol type, such as `consumer`."""

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """Give the protocols that this member speaks, the preferred first, and what it says of itself in each."""

    async def assign(self, election: Election) -> Mapping[str, bytes]:
        """As the leader, give every member its share."""

    def assigned(self, protocol: str, generation: int, assignment: bytes) -> None:
        """Take this member's share of a generation."""


class ClassicMembership:
    """One member of one group.

    on_moved is called, once for each time, when heartbeats find that the group has moved or this member is out of it.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        protocol: MemberProtocol,
        times: GroupTimes,
        *,
        instance_id: str | None = None,
        on_moved: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._cluster = cluster
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.leader_id = ""
        self._protocol = protocol
        self._times = times
        self._session_s = times.session_ms / 1000
        self._heard = 0.0
        self._instance_id = instance_id
        self._on_moved = on_moved
        self._rejoin = True
        self._why = ""
        self._heart: asyncio.Task[None] | None = None
        self._failed: Exception | None = None

    @property
    def must_join(self) -> bool:
        """Say whether the group has moved, or may have, so that the assignment is no longer this member's."""
        return self._rejoin or self._lapsed

    @property
    def _lapsed(self) -> bool:
        """Whether a session has gone by unheard; known at once where a process was stopped and goes on."""
        return self._heart is not None and asyncio.get_running_loop().time() > self._heard + self._session_s

    def request_rejoin(self, why: str) -> None:
        """Have the next `ensure_joined` join again, which makes the group rebalance. why: for the broker's log."""
        self._rejoin, self._why = True, why

    async def ensure_joined(self) -> bool:
        """Join, or join again when the group has moved; say whether the assignment is new. ApiError when refused."""
        if self._failed is not None:
            raise self._failed
        if not self.must_join:
            return False
        self._rejoin = True
        await self._stop_heart()
        while self._rejoin:
            self._rejoin = False
            try:
                await self._join()
            except ApiError as e:
                await self._join_failed(e)
            except BaseException:
                self._rejoin = True  # cancelled or cut off: not a member of this generation
                raise
        self._why = ""
        self._heard = asyncio.get_running_loop().time()
        self._heart = asyncio.create_task(self._beat(), name=f"heartbeats of {self.group}")
        return True

    async def leave(self, why: str = "the consumer is being closed") -> None:
        """Leave the group, unless the member is static, so that its work is given away at once."""
        await self._stop_heart()
        if self.member_id and self._instance_id is None:
            me = MemberIdentity(member_id=self.member_id, reason=why)
            try:
                await self._call(LeaveGroupRequest(group_id=self.group, member_id="", members=[me]))
            except (ApiError, DisconnectedError, RequestTimeoutError, ProtocolError):
                pass  # the session time-out does the same, later
        self.member_id, self.generation, self._rejoin = "", -1, True

    async def _join(self) -> None:
        offered = [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self._protocol.metadata()]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._times.session_ms,
            rebalance_timeout_ms=self._times.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=self._protocol.type,
            protocols=offered,
            reason=self._why or None,
        )
        wait_ms = self._times.rebalance_ms + 5_000
        joined: JoinGroupResponse = await self._call(request, timeout_ms=wait_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        self._check(joined.error_code)
        self.member_id, self.generation, self.leader_id = joined.member_id, joined.generation_id, joined.leader
        protocol = joined.protocol_name or ""
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = {m.member_id: bytes(m.metadata) for m in joined.members}
            given = await self._protocol.assign(Election(protocol, joined.generation_id, joined.leader, members))
            assignments = [SyncGroupRequestAssignment(member_id=m, assignment=mine) for m, mine in given.items()]
        synced: SyncGroupResponse = await self._call(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type=self._protocol.type,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            ),
            timeout_ms=wait_ms,
        )
        self._check(synced.error_code)
        self._protocol.assigned(protocol, self.generation, bytes(synced.assignment))

    async def _join_failed(self, e: ApiError) -> None:
        if e.code in _FORGOTTEN:
            self.member_id, self.generation = "", -1
        elif e.code not in _JOIN_AGAIN:
            raise e
        if e.code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.group)
            await asyncio.sleep(self._cluster.config.integer("retry.backoff.ms") / 1000)
        self._rejoin = True

    async def _beat(self) -> None:
        """Stay a member, also while the group waits for this one to join again: its owner may be at work until then."""
        while True:
            await asyncio.sleep(self._times.heartbeat_ms / 1000)
            try:
                async with asyncio.timeout_at(self._heard + self._session_s):
                    await self._beat_once()
                self._heard = asyncio.get_running_loop().time()
            except (DisconnectedError, RequestTimeoutError):
                continue  # the session may still outlive this
            except TimeoutError:
                self._moved("the coordinator has not been heard for the time of a session")
                return
            except ApiError as e:
                if e.code in _FORGOTTEN:
                    self.member_id, self.generation = "", -1
                elif e.code not in _JOIN_AGAIN:
                    self._failed = e
                self._moved(e.code.message)
                if e.code != ErrorCode.REBALANCE_IN_PROGRESS:
                    return
                self._heard = asyncio.get_running_loop().time()

    async def _beat_once(self) -> None:
        beat: HeartbeatResponse = await self._call(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
            )
        )
        self._check(beat.error_code)

    def _moved(self, why: str) -> None:
        told, self._rejoin = self._rejoin, True
        if not told:
            self._on_moved(why)

    async def _stop_heart(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)

    async def _call(self, request: Any, **how: Any) -> Any:
        return await self._cluster.call_coordinator(CoordinatorKind.GROUP, self.group, request, **how)

    def _check(self, code: int) -> None:
        if code != ErrorCode.NONE:
            raise ApiError(ErrorCode(code), f"group {self.group!r}: {ErrorCode(code).message}")
