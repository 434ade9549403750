"""A worker as a member of its Connect group: what it offers, and the whole of what it is to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from barnabas.client.classic_group import ClassicMembership, Election, GroupTimes
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.subprotocol import (
    PROTOCOL_TYPE,
    Assignment,
    ExtendedAssignment,
    Subprotocol,
    WorkerState,
    decode_assignment,
    decode_extended,
    metadata,
)


class Assigner(Protocol):
    """Shares work out while this worker leads."""

    async def assign(self, subprotocol: Subprotocol, election: Election, last_generation: int) -> Mapping[str, bytes]:
        """Give every member its share, encoded. last_generation: the last one that this worker saw complete."""


class GroupMember:
    """This worker in its group.

    offset: gives how far the config topic has been read; on_moved: told, with a reason, when the group has moved.
    """

    def __init__(
        self,
        client: ClientConfig,
        group: str,
        url: str,
        subprotocols: Sequence[Subprotocol],
        *,
        assigner: Assigner,
        offset: Callable[[], int],
        on_moved: Callable[[str], None],
    ) -> None:
        times = GroupTimes(
            client.integer("session.timeout.ms"),
            client.integer("max.poll.interval.ms"),
            client.integer("heartbeat.interval.ms"),
        )
        # A coordinator that is silent for a session has given this worker's work away by then.
        self._cluster = Cluster(client.with_properties(default_api_timeout_ms=str(times.session_ms)))
        self._protocol = _WorkerProtocol(url, subprotocols, assigner, offset)
        self._membership = ClassicMembership(self._cluster, group, self._protocol, times, on_moved=on_moved)

    @property
    def member_id(self) -> str:
        """Give the id that the coordinator has given this worker, empty for none."""
        return self._membership.member_id

    @property
    def generation(self) -> int:
        """Give the generation of the latest join, -1 for none."""
        return self._membership.generation

    @property
    def subprotocol(self) -> Subprotocol:
        """Give what the latest join agreed on; before the first one, the best that this worker offers."""
        return self._protocol.agreed

    @property
    def assignment(self) -> ExtendedAssignment | None:
        """Give the whole of what this worker is to run, with what the latest join revoked; None for nothing yet."""
        return self._protocol.assignment

    @property
    def leads(self) -> bool:
        """Say whether this worker leads the group."""
        assignment = self.assignment
        return assignment is not None and self.member_id != "" and assignment.leader == self.member_id

    @property
    def leader_url(self) -> str | None:
        """Give where the leader's REST server is, None while nobody has said."""
        assignment = self.assignment
        return (assignment.leader_url or None) if assignment is not None else None

    @property
    def must_join(self) -> bool:
        """Say whether the group has moved."""
        return self._membership.must_join

    def request_rejoin(self, why: str) -> None:
        """Have the next `ensure_joined` join again."""
        self._membership.request_rejoin(why)

    async def ensure_joined(self) -> bool:
        """Join when the group has moved; say whether the assignment is new.

        ApiError when the coordinator refuses for good, DisconnectedError or RequestTimeoutError when it is not there.
        """
        return await self._membership.ensure_joined()

    def take_revoked(self) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        """Give what the latest join revoked, once."""
        assignment = self._protocol.assignment
        if assignment is None:
            return (), ()
        self._protocol.assignment = replace(assignment, revoked_connectors=(), revoked_tasks=())
        return assignment.revoked_connectors, assignment.revoked_tasks

    def drop_assignment(self) -> None:
        """Forget what was assigned, because nothing of it runs any more."""
        self._protocol.assignment = None

    async def leave(self, why: str) -> None:
        """Leave the group, so that the others need not wait for the session to end."""
        await self._membership.leave(why)

    async def close(self) -> None:
        """Close every connection."""
        await self._cluster.close()


class _WorkerProtocol:
    """What workers tell each other when they join (`MemberProtocol`)."""

    type: Final = PROTOCOL_TYPE

    def __init__(
        self, url: str, subprotocols: Sequence[Subprotocol], assigner: Assigner, offset: Callable[[], int]
    ) -> None:
        self._url = url
        self._subprotocols = subprotocols
        self._assigner = assigner
        self._offset = offset
        self._last_generation = -1
        self.agreed = subprotocols[0]
        self.assignment: ExtendedAssignment | None = None

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return metadata(WorkerState(self._url, self._offset(), self.assignment), self._subprotocols)

    async def assign(self, election: Election) -> Mapping[str, bytes]:
        return await self._assigner.assign(Subprotocol(election.protocol), election, self._last_generation)

    def assigned(self, protocol: str, generation: int, assignment: bytes) -> None:
        self.agreed, self._last_generation = Subprotocol(protocol), generation
        if self.agreed is Subprotocol.DEFAULT:
            self.assignment = _extended(decode_assignment(assignment))
        else:
            self.assignment = _whole(self.assignment, decode_extended(assignment))


def _extended(given: Assignment) -> ExtendedAssignment:
    """Give a whole assignment in the other's shape: nothing is revoked, for everything had been given up."""
    return ExtendedAssignment(
        Subprotocol.DEFAULT.version,
        given.error,
        given.leader,
        given.leader_url,
        given.config_offset,
        given.connectors,
        given.tasks,
    )


def _whole(before: ExtendedAssignment | None, given: ExtendedAssignment) -> ExtendedAssignment:
    """Give what a worker runs after an incremental assignment: what it has, less what is revoked, and what is new."""
    if before is None:
        return given
    revoked = {*given.revoked_connectors, *given.revoked_tasks}
    connectors = dict.fromkeys([*(c for c in before.connectors if c not in revoked), *given.connectors])
    tasks = dict.fromkeys([*(t for t in before.tasks if t not in revoked), *given.tasks])
    return replace(given, connectors=tuple(connectors), tasks=tuple(tasks))
