"""Whether ZooKeeper's ACLs let this node do its work, found out before it begins; and what they leave open (KIP-38)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from barnabas.core.zookeeper.access import NEEDED, locked_out, nobody, open_znodes, out_of_bounds
from barnabas.core.zookeeper.errors import NoAuthError, NoNodeError, ZooKeeperError
from barnabas.core.zookeeper.migration import Znode
from barnabas.core.zookeeper.migration_checks import standing_open
from barnabas.core.zookeeper.paths import SECRET_ROOTS, SECURE_ROOTS, child
from barnabas.core.zookeeper.values import Permission
from barnabas.model.config import ConfigError
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import read_all

log = structlog.get_logger("kafka.zookeeper")

MOST_LOOKED_AT: Final = 10_000
"""Znodes, of which each takes one question to ZooKeeper, or two."""
_AT_ONCE: Final = 50
"""Questions under way: few, since others wait for the same ZooKeeper while a node starts."""


class ZooKeeperAccessError(ConfigError):
    """This node is not who the znodes belong to, or nobody; the text says who is who, and what to do."""


async def check_access(zk: ZooKeeperClient, *, set_acl: bool, needed: Mapping[str, Permission] = NEEDED) -> None:
    """ZooKeeperAccessError when the ACLs of a few znodes that are there forbid what a broker does first (H-34).

    set_acl: `zookeeper.set.acl`; then it is raised for nobody, too. A chroot that is still empty forbids nothing.
    needed: `NEEDED_FOR_RULES` for a node whose authorizer alone uses ZooKeeper.
    """
    ours = await zk.authenticated_ids()
    if set_acl and not ours:
        raise ZooKeeperAccessError(nobody(zk.login_failure))
    seen = await read_all(zk, needed, lambda _: None)
    refusing = out_of_bounds(ours, seen.found, needed)
    if refusing or seen.refused:
        raise ZooKeeperAccessError(locked_out(ours, refusing, seen.refused, _connect(zk)))


@dataclass(slots=True)
class OpenZnodes:
    """paths: of the covered znodes that anybody may change; looked_at: how many were; whole: there are no others."""

    paths: list[str] = field(default_factory=list)
    looked_at: int = 0
    whole: bool = True


async def warn_of_open_znodes(zk: ZooKeeperClient, limit: int = MOST_LOOKED_AT) -> OpenZnodes:
    """Log one WARN when covered znodes stand open (H-35). For a task of its own, where `zookeeper.set.acl` is true.

    limit: how many znodes to look at. It gives up without a word of warning when ZooKeeper cannot be asked.
    """
    found = OpenZnodes()
    try:
        await _look(zk, limit, found)
    except ZooKeeperError as e:
        log.info("gives up looking for znodes that stand open", because=str(e))
    if found.paths:
        log.warning(open_znodes(found.paths, found.looked_at, _connect(zk), all_of_them=found.whole))
    return found


def _connect(zk: ZooKeeperClient) -> str:
    return ",".join(f"{host}:{port}" for host, port in zk.settings.servers) + zk.settings.chroot


async def _look(zk: ZooKeeperClient, limit: int, found: OpenZnodes) -> None:
    """Look at the tops first, what is secret before all; then at children of each, in turn, however many one has."""
    families = deque(iter([path]) for path in (*SECRET_ROOTS, *SECURE_ROOTS))
    while families and found.looked_at < limit:
        paths = _next_paths(families, min(_AT_ONCE, limit - found.looked_at))
        looks = await asyncio.gather(*(_look_at(zk, path) for path in paths))
        found.looked_at += len(paths)
        found.paths += standing_open(znode for znode, _ in looks if znode is not None)
        families.extend(iter(names) for _, names in looks if names)
    found.whole = not _next_paths(families, 1)


def _next_paths(families: deque[Iterator[str]], count: int) -> list[str]:
    """Take paths, one from each family in turn."""
    paths: list[str] = []
    while families and len(paths) < count:
        family = families.popleft()
        path = next(family, None)
        if path is not None:
            paths.append(path)
            families.append(family)
    return paths


async def _look_at(zk: ZooKeeperClient, path: str) -> tuple[Znode | None, list[str]]:
    try:
        acls, stat = await zk.acls(path)
        names = await zk.children(path) if stat.children else []
    except (NoNodeError, NoAuthError):
        return None, []
    return Znode(path, acls, stat), [child(path, name) for name in names if child(path, name) not in SECRET_ROOTS]
