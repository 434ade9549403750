"""Reserved directory ids: what PartitionRecord.directories holds when no log directory can be named (KIP-858)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from barnabas.model.uuid import RESERVED_UUIDS, Uuid

MIGRATING: Final = Uuid(bytes(16))
"""Placed before directories were assigned: the cluster's metadata.version did not know of them."""
UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
"""The broker has several directories and has not said yet in which one the replica is."""
LOST: Final = Uuid(bytes(15) + b"\x02")
"""The replica is in a directory that is offline, but which one is not known."""


def reserved(directory: Uuid) -> bool:
    """Say whether no real directory may have this id."""
    return directory in RESERVED_UUIDS


def online(directory: Uuid, online_directories: Collection[Uuid]) -> bool:
    """Say whether a replica in `directory` can serve, given the directories its broker reports as online."""
    if directory in (UNASSIGNED, MIGRATING):
        return True
    if directory == LOST:
        return False
    # A broker that reports none predates directory assignment: none of its directories is known to be lost.
    return not online_directories or directory in online_directories
