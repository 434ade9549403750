"""What the leader of a group answers everybody in a SyncGroup, whatever the subprotocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.core.connect.assignment import eager, incremental
from barnabas.core.connect.assignment.incremental import Memory, Round
from barnabas.core.connect.assignment.work import Shares, Unit, configured, connectors_of, tasks_of, units
from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.subprotocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    Assignment,
    ExtendedAssignment,
    Subprotocol,
    WorkerState,
    decode_worker_state,
    encode_assignment,
    encode_extended,
)


@dataclass(frozen=True, slots=True)
class Led:
    """What comes of a round.

    messages: by member id, for the SyncGroup; memory: for the next round; urls: of the members' REST listeners; owners:
    who has each connector and each task after it, by member id. behind: the leader has read less of the config topic
    than some member, so that all were told to read on and to rejoin.
    """

    messages: Mapping[str, bytes]
    memory: Memory
    urls: Mapping[str, str]
    owners: Mapping[Unit, str] = field(default_factory=dict)
    behind: bool = False

    def owner_url(self, unit: Unit) -> str | None:
        """Give where the owner of a connector or a task listens, None when nobody has it."""
        owner = self.owners.get(unit)
        return None if owner is None else self.urls[owner]


def lead(
    subprotocol: Subprotocol,
    leader: str,
    metadata: Mapping[str, bytes],
    config: ClusterConfigState,
    memory: Memory,
    this: Round,
) -> Led:
    """Give the answers of a round of assignment.

    leader: this worker's member id; metadata: by member id, as members sent it for `subprotocol`; config: the newest
    that there is. ProtocolError when a member sent something else.
    """
    members = {member: decode_worker_state(data) for member, data in metadata.items()}
    urls = {member: state.url for member, state in members.items()}
    newest = max(state.config_offset for state in members.values())
    sender = _Sender(subprotocol, leader, urls[leader], max(newest, config.offset))
    if config.offset < newest:
        nothing = Shares(assigned=dict.fromkeys(members, ()))
        return Led(sender.messages(CONFIG_MISMATCH, nothing), memory, urls, behind=True)
    work = configured(config)
    if subprotocol is Subprotocol.DEFAULT:
        shares = eager.share_out(work, members, this.capable)
    else:
        held = {member: _held(state) for member, state in members.items()}
        memory, shares = incremental.share_out(memory, work, held, this)
    owners = {unit: member for member, part in shares.owned.items() for unit in part}
    return Led(sender.messages(NO_ERROR, shares), memory, urls, owners)


def _held(state: WorkerState) -> tuple[Unit, ...]:
    return () if state.assignment is None else units(state.assignment.connectors, state.assignment.tasks)


@dataclass(frozen=True, slots=True)
class _Sender:
    subprotocol: Subprotocol
    leader: str
    url: str
    offset: int

    def messages(self, error: int, shares: Shares) -> dict[str, bytes]:
        encode = self._whole if self.subprotocol is Subprotocol.DEFAULT else self._incremental
        return {member: encode(error, member, shares) for member in shares.assigned}

    def _whole(self, error: int, member: str, shares: Shares) -> bytes:
        part = shares.assigned[member]
        return encode_assignment(
            Assignment(error, self.leader, self.url, self.offset, connectors_of(part), tasks_of(part))
        )

    def _incremental(self, error: int, member: str, shares: Shares) -> bytes:
        part, gone = shares.assigned[member], shares.revoked.get(member, ())
        return encode_extended(
            ExtendedAssignment(
                self.subprotocol.version,
                error,
                self.leader,
                self.url,
                self.offset,
                connectors_of(part),
                tasks_of(part),
                connectors_of(gone),
                tasks_of(gone),
                shares.delay_ms,
            )
        )
