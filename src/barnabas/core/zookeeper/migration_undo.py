"""An undo file as text: a line of JSON that says what it belongs to, then one for every znode that a run changes.

A run that was interrupted and goes on adds lines; what counts for a path is its first one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from barnabas.core.zookeeper.migration import Before
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import Permission, ZnodeAcl

_VERSION: Final = 1
_JSON: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class UndoFileError(ValueError):
    """Not an undo file, or not one for this; the text says why."""


@dataclass(frozen=True, slots=True)
class UndoHeader:
    """What an undo file belongs to. chroot: empty for none; cluster: its id, empty when it has none yet."""

    chroot: str
    cluster: str
    secure: bool


def header_line(header: UndoHeader) -> str:
    """Give the first line."""
    mode = "secure" if header.secure else "unsecure"
    return _line({"undo": _VERSION, "zookeeper.acl": mode, "chroot": header.chroot, "cluster": header.cluster})


def before_line(was: Before) -> str:
    """Give the line of a znode."""
    return f'{{"path":{_JSON.encode(was.path)},"acls":{"null" if was.acls is None else _entries(was.acls)}}}\n'


def read(text: str) -> tuple[UndoHeader, dict[str, Before]]:
    """Give what a file says, by path; UndoFileError when it is something else."""
    try:
        first, *rest = (json.loads(line) for line in text.split("\n") if line)
        header = _header(first)
        return header, _by_path(_before(one) for one in rest)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise UndoFileError(f"not an undo file of this tool: {e}") from None


def _by_path(entries: Iterable[Before]) -> dict[str, Before]:
    kept: dict[str, Before] = {}
    for one in entries:
        kept.setdefault(one.path, one)
    return kept


def _header(value: dict[str, Any]) -> UndoHeader:
    if value["undo"] != _VERSION:
        raise UndoFileError(f"version {value['undo']} is from a later release")
    return UndoHeader(str(value["chroot"]), str(value["cluster"]), value["zookeeper.acl"] == "secure")


def _before(value: dict[str, Any]) -> Before:
    acls = value["acls"]
    return Before(str(value["path"]), None if acls is None else _acls(acls))


def _acls(values: list[list[Any]]) -> ZnodeAcls:
    return tuple(ZnodeAcl(Permission(int(bits)), str(scheme), str(who)) for bits, scheme, who in values)


@lru_cache(maxsize=256)
def _entries(acls: ZnodeAcls) -> str:
    """Many znodes, few ACLs: each is encoded once."""
    return _JSON.encode([[int(acl.permissions), acl.scheme, acl.id] for acl in acls])


def _line(value: dict[str, Any]) -> str:
    return _JSON.encode(value) + "\n"
