"""Requests and answers of ZooKeeper's protocol: kazoo's, in values of ours, and the two that kazoo has not."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from kazoo.exceptions import ZookeeperError as Refusal
from kazoo.protocol import serialization as wire
from kazoo.security import ACL, Id

from barnabas.core.zookeeper.errors import error_for
from barnabas.core.zookeeper.values import (
    Check,
    Create,
    Delete,
    Operation,
    Permission,
    Result,
    SetData,
    Stat,
    ZnodeAcl,
    ZnodeId,
)

EPHEMERAL: Final = 1
SEQUENTIAL: Final = 2
_NOT_DONE: Final = (0, -2)
"""What operations of a transaction have, that went before the one that failed, or would have come after it."""
_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_FALSE: Final = b"\x00"


class Request(Protocol):
    """What can be sent after the session is there."""

    @property
    def type(self) -> int:
        """Give the number of the operation."""
        ...

    def serialize(self) -> bytes | bytearray:
        """Give the bytes after the header."""
        ...


@dataclass(frozen=True, slots=True)
class SetWatches:
    """Ask for the watches of a connection that was lost; what came true since `zxid` is told at once."""

    zxid: int
    data: Sequence[str]
    existence: Sequence[str]
    children: Sequence[str]
    type: int = 101

    def serialize(self) -> bytes:
        """See Request."""
        return _LONG.pack(self.zxid) + b"".join(map(_strings, (self.data, self.existence, self.children)))


@dataclass(frozen=True, slots=True)
class WhoAmI:
    """Ask who we are to ZooKeeper; from 3.7 on."""

    type: int = 107

    def serialize(self) -> bytes:
        """See Request."""
        return b""


def read_ids(body: bytes) -> tuple[ZnodeId, ...]:
    """Give the answer to WhoAmI."""
    (count,) = _INT.unpack_from(body)
    at, found = _INT.size, []
    for _ in range(count):
        scheme, at = wire.read_string(body, at)
        name, at = wire.read_string(body, at)
        found.append(ZnodeId(scheme, name))
    return tuple(found)


def create_request(path: str, one: Create) -> Request:
    """Give the request for a whole path."""
    flags = (EPHEMERAL if one.ephemeral else 0) | (SEQUENTIAL if one.sequential else 0)
    request: Request = wire.Create(path, one.data, sent_acls(one.acls), flags)
    return request


def operation_request(path: str, one: Operation) -> Request:
    """Give the request of an operation, for a whole path."""
    found: Any
    match one:
        case Create():
            found = create_request(path, one)
        case SetData():
            found = wire.SetData(path, one.data, one.version)
        case Delete():
            found = wire.Delete(path, one.version)
        case Check():
            found = wire.CheckVersion(path, one.version)
    return found  # type: ignore[no-any-return]


def read_results(body: bytes, operations: Sequence[Operation]) -> list[Result]:
    """Give the answers to a transaction, whose paths are whole; the error of the one that failed is raised."""
    found = wire.Transaction.deserialize(body, 0)
    for operation, result in zip(operations, found, strict=True):
        if isinstance(result, Refusal) and result.code not in _NOT_DONE:
            raise error_for(result.code, operation.path)
    return list(map(_result, operations, found))


def _result(operation: Operation, found: Any) -> Result:
    match operation:
        case Create():
            return str(found)
        case SetData():
            return stat_of(found)
        case _:
            return None


def sent_acls(acls: Iterable[ZnodeAcl]) -> list[Any]:
    """Give ACLs as kazoo has them."""
    return [ACL(int(acl.permissions), Id(acl.scheme, acl.id)) for acl in acls]


def path_body(path: str) -> bytes:
    """Give what GetACL says after its header; other requests begin so."""
    return bytes(wire.write_string(path))


def children_body(path: str) -> bytes:
    """Give what GetChildren says after its header, without a watch."""
    return path_body(path) + _FALSE


def set_acl_rest(acls: Iterable[ZnodeAcl], version: int) -> bytes:
    """Give what SetACL says after the path: the same for many znodes."""
    return bytes(wire.SetACL("", sent_acls(acls), version).serialize())[_INT.size :]


def read_acls(body: bytes) -> tuple[tuple[ZnodeAcl, ...], Stat]:
    """Give the answer to GetACL. Many znodes have few ACLs: equal ones are one object, as long as they are few."""
    at = len(body) - wire.stat_struct.size
    return _acls(body[:at]), Stat(*wire.stat_struct.unpack_from(body, at))


@lru_cache(maxsize=1024)
def _acls(body: bytes) -> tuple[ZnodeAcl, ...]:
    acls, _ = wire.GetACL.deserialize(body + bytes(wire.stat_struct.size), 0)
    return tuple(ZnodeAcl(Permission(acl.perms), acl.id.scheme, acl.id.id or "") for acl in acls)


def read_names(body: bytes) -> list[str]:
    """Give the answer to GetChildren."""
    found: list[str] = wire.GetChildren.deserialize(body, 0)
    return found


def stat_of(found: Any) -> Stat:
    """Give a Stat of kazoo's, whose fields are in the protocol's order as well."""
    return Stat(*found)


def read_stat(body: bytes) -> Stat:
    """Give the answer that is nothing but a Stat."""
    return stat_of(wire.SetData.deserialize(body, 0))


def _strings(texts: Sequence[str]) -> bytes:
    return _INT.pack(len(texts)) + b"".join(map(wire.write_string, texts))
