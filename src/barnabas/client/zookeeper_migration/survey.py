"""What there is before anything changes: whose tree it is, who we are there, and the ACL of every covered znode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.core.zookeeper.errors import NoAuthError, NoNodeError
from barnabas.core.zookeeper.migration import Znode
from barnabas.core.zookeeper.migration_checks import kafka_trees, neighbours
from barnabas.core.zookeeper.paths import ROOT, SECURE_ROOTS, child
from barnabas.core.zookeeper.values import ZnodeId
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.settings import ZooKeeperSettings
from barnabas.net.zookeeper.walk import Counted, read_all, read_trees

_CLUSTER_ID: Final = "/cluster/id"
_TREES_LOOKED_INTO: Final = 500


@dataclass(frozen=True, slots=True)
class Survey:
    """found: `/` and all that is covered, but the paths in refused, which may not be read; ours: who we are, empty for
    nobody; cluster: its id, empty when it has none; shared_with: names beside Kafka's where there is no chroot."""

    found: tuple[Znode, ...]
    refused: tuple[str, ...]
    ours: tuple[ZnodeId, ...]
    cluster: str
    shared_with: tuple[str, ...]

    @property
    def is_kafkas(self) -> bool:
        """Say whether anything of Kafka's is there."""
        return any(znode.path in SECURE_ROOTS for znode in self.found)


async def survey(zk: ZooKeeperClient, counted: Counted) -> Survey:
    """Look at everything."""
    root = await read_all(zk, [ROOT], counted)
    below = await read_trees(zk, SECURE_ROOTS, counted)
    alone = bool(zk.settings.chroot) or not root.found
    return Survey(
        (*root.found, *below.found),
        (*root.refused, *below.refused),
        await who_we_are(zk),
        await cluster_id(zk),
        () if alone else tuple(neighbours(await zk.children(ROOT))),
    )


async def who_we_are(zk: ZooKeeperClient) -> tuple[ZnodeId, ...]:
    """Give the ids that ACLs know us by; none for nobody."""
    who = await zk.authenticated_id()
    return () if who is None else (who,)


async def cluster_id(zk: ZooKeeperClient) -> str:
    """Give the id of the cluster; empty when it has none."""
    try:
        data, _ = await zk.get(_CLUSTER_ID)
        return str(json.loads(data)["id"])
    except (NoNodeError, NoAuthError, ValueError, KeyError, TypeError):
        return ""


async def other_trees(settings: ZooKeeperSettings) -> list[str]:
    """Give the chroots of the ensemble that look like Kafka's: what may have been meant."""
    async with ZooKeeperClient(replace(settings, chroot="")) as zk:
        tops = [child(ROOT, name) for name in sorted(await _names(zk, ROOT))]
        paths = [ROOT, *tops[:_TREES_LOOKED_INTO]]
        names = await asyncio.gather(*(_names(zk, path) for path in paths))
        return list(kafka_trees(zip(paths, names, strict=True)))


async def _names(zk: ZooKeeperClient, path: str) -> Sequence[str]:
    try:
        return await zk.children(path)
    except (NoNodeError, NoAuthError):
        return ()
