"""What workers tell each other through the group protocol: who they are, what they run, what they are to run.

Protocol type `connect`; the subprotocols are named from the first one on: `default` (version 0, eager), `compatible`
(version 1, incremental cooperative, KIP-415) and `sessioned` (version 2: the same with signed requests, KIP-507).
Version 2 differs from 1 in its number only. A version that is not known yet is read as the newest one that is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import MAX_STRING_BYTES

PROTOCOL_TYPE: Final = "connect"
NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The error of an assignment whose leader knows less of the config topic than a member: read to its end, rejoin."""
UNKNOWN_OFFSET: Final = -1
_CONNECTOR_ITSELF: Final = -1


class Subprotocol(StrEnum):
    """How a group assigns work, by the name that members offer; also the value of the metric `connect-protocol`."""

    DEFAULT = "default"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"

    @property
    def version(self) -> int:
        """Give the number at the head of its messages."""
        return _VERSIONS[self]

    @property
    def signs(self) -> bool:
        """Say whether requests between workers are signed and checked."""
        return self is Subprotocol.SESSIONED


_VERSIONS: Final = {Subprotocol.DEFAULT: 0, Subprotocol.COMPATIBLE: 1, Subprotocol.SESSIONED: 2}


@dataclass(frozen=True, slots=True)
class Assignment:
    """The whole of what a member is to run, by subprotocol `default`.

    leader: its member id; leader_url: of its REST listener; config_offset: how far the leader had read the config
    topic (the offset of the record to come) when it assigned.
    """

    error: int
    leader: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtendedAssignment:
    """What a member runs, what it is to give up, and when to rejoin, by `compatible` and `sessioned`.

    Sent by the leader, connectors and tasks are those to begin with; sent by a member, those that it has. delay_ms: the
    leader wants a rebalance so much later, 0 for none. version: 1 or 2.
    """

    version: int
    error: int
    leader: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[ConnectorTaskId, ...] = ()
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a member tells when it joins.

    url: of its REST listener; config_offset: how far it has read the config topic; assignment: what it runs, None for
    nothing yet and by `default`, where everything is given up before joining.
    """

    url: str
    config_offset: int
    assignment: ExtendedAssignment | None = None


def offered(connect_protocol: str) -> tuple[Subprotocol, ...]:
    """Give what a worker offers, the best first, by the value of `connect.protocol` in any case.

    `eager` and its name on the wire, `default`, mean the same; ValueError for anything else. KIP-507, C-08, C-09.
    """
    wanted = connect_protocol.lower()
    best = Subprotocol.DEFAULT if wanted == "eager" else Subprotocol(wanted)
    return tuple(s for s in reversed(Subprotocol) if s.version <= best.version)


def metadata(state: WorkerState, subprotocols: Sequence[Subprotocol]) -> list[tuple[str, bytes]]:
    """Give what stands in a JoinGroup: each subprotocol's name with this member's state in its encoding."""
    return [(s.value, encode_worker_state(state, s)) for s in subprotocols]


def encode_worker_state(state: WorkerState, subprotocol: Subprotocol) -> bytes:
    """Give the bytes of a member's state."""
    head = _SHORT.pack(subprotocol.version) + _string(state.url) + _LONG.pack(state.config_offset)
    if subprotocol is Subprotocol.DEFAULT:
        return head
    if state.assignment is None:
        return head + _INT.pack(-1)
    allocation = encode_extended(replace(state.assignment, version=subprotocol.version))
    return head + _INT.pack(len(allocation)) + allocation


def decode_worker_state(data: bytes) -> WorkerState:
    """Give a member's state; ProtocolError for anything else."""
    reader = _Reader(data)
    version = reader.version()
    url = reader.string()
    offset = reader.int64()
    if version == 0:
        return WorkerState(url, offset)
    allocation = None if reader.at_end else reader.nullable_bytes()
    return WorkerState(url, offset, None if allocation is None else decode_extended(allocation))


def encode_assignment(assignment: Assignment) -> bytes:
    """Give the bytes of a whole assignment (version 0)."""
    return (
        _SHORT.pack(Subprotocol.DEFAULT.version)
        + _assignment_head(assignment)
        + _by_connector(assignment.connectors, assignment.tasks)
    )


def decode_assignment(data: bytes) -> Assignment:
    """Give a whole assignment; ProtocolError for anything else."""
    reader = _Reader(data)
    reader.version()
    error, leader, url, offset = reader.assignment_head()
    connectors, tasks = reader.by_connector()
    return Assignment(error, leader, url, offset, connectors, tasks)


def encode_extended(assignment: ExtendedAssignment) -> bytes:
    """Give the bytes of an incremental assignment (version 1 or 2)."""
    return (
        _SHORT.pack(assignment.version)
        + _assignment_head(assignment)
        + _by_connector(assignment.connectors, assignment.tasks)
        + _by_connector(assignment.revoked_connectors, assignment.revoked_tasks)
        + _INT.pack(assignment.delay_ms)
    )


def decode_extended(data: bytes) -> ExtendedAssignment:
    """Give an incremental assignment; ProtocolError for anything else. What is missing at the end is empty."""
    reader = _Reader(data)
    version = reader.version()
    error, leader, url, offset = reader.assignment_head()
    connectors, tasks = ((), ()) if reader.at_end else reader.by_connector()
    revoked_connectors, revoked_tasks = ((), ()) if reader.at_end else reader.by_connector()
    delay_ms = 0 if reader.at_end else reader.int32()
    return ExtendedAssignment(
        version, error, leader, url, offset, connectors, tasks, revoked_connectors, revoked_tasks, delay_ms
    )


_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ProtocolError(f"a string of {len(data)} bytes is too long for a Connect group")
    return _SHORT.pack(len(data)) + data


def _assignment_head(assignment: Assignment | ExtendedAssignment) -> bytes:
    return (
        _SHORT.pack(assignment.error)
        + _string(assignment.leader)
        + _string(assignment.leader_url)
        + _LONG.pack(assignment.config_offset)
    )


def _by_connector(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> bytes:
    numbers: dict[str, list[int]] = {name: [_CONNECTOR_ITSELF] for name in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    rows = [
        _string(name) + _INT.pack(len(ids)) + b"".join(_INT.pack(number) for number in ids)
        for name, ids in numbers.items()
    ]
    return _INT.pack(len(rows)) + b"".join(rows)


class _Reader:
    """One pass over some bytes; every read that does not fit is a ProtocolError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise ProtocolError("a message between Connect workers is cut short")
        self._at += length
        return self._data[self._at - length : self._at]

    def int16(self) -> int:
        value: int = _SHORT.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT.unpack(self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _LONG.unpack(self.take(8))[0]
        return value

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise ProtocolError(f"there is no version {version} of Connect's group protocol")
        return version

    def string(self) -> str:
        try:
            return self.take(self.int16()).decode()
        except UnicodeDecodeError:
            raise ProtocolError("a name between Connect workers is no UTF-8") from None

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self.take(length)

    def assignment_head(self) -> tuple[int, str, str, int]:
        return self.int16(), self.string(), self.string(), self.int64()

    def by_connector(self) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(self._count()):
            name = self.string()
            for _ in range(self._count()):
                number = self.int32()
                if number == _CONNECTOR_ITSELF:
                    connectors.append(name)
                else:
                    tasks.append(ConnectorTaskId(name, number))
        return tuple(connectors), tuple(tasks)

    def _count(self) -> int:
        """Give the length of an array; null counts as empty, and none can have more items than there are bytes."""
        count = self.int32()
        if count > len(self._data) - self._at:
            raise ProtocolError("an array between Connect workers is longer than its message")
        return max(count, 0)
