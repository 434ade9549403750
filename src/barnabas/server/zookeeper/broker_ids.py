"""The id of a broker that has none set: kept in its data directories, and given by ZooKeeper before that."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from barnabas.core.zookeeper.security import acls_for
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.server.zookeeper.access import check_access
from barnabas.server.zookeeper.layout import SEQUENCE, make_layout
from barnabas.storage.meta_properties import MetaVersion, read_meta_properties

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.storage.fs import FileSystem

log = structlog.get_logger("kafka.server.Node")


async def broker_id(config: NodeConfig, fs: FileSystem) -> int:
    """Give the id of a broker whose `broker.id` is not set: that of its data directories, else a new one.

    MetaPropertiesError for directories that are no broker's of ZooKeeper mode; OSError when one cannot be read and no
    other has an id; ZooKeeperError when none can be given.
    """
    kept = kept_id(map(Path, config.log_dirs), fs)
    return await _given_id(config) if kept is None else kept


def kept_id(directories: Iterable[Path], fs: FileSystem) -> int | None:
    """Give the id that stands in the first directory that has one, None when all are empty; errors as `broker_id`."""
    unreadable: OSError | None = None
    for directory in directories:
        try:
            found = read_meta_properties(directory, fs, MetaVersion.ZOOKEEPER)
        except OSError as e:
            unreadable = unreadable or e  # a failed disk may be the only one that knows: no second id then
            continue
        if found is not None:
            return found.node_id
    if unreadable is not None:
        raise unreadable
    return None


async def _given_id(config: NodeConfig) -> int:
    """Give an id that no other broker gets: how often `SEQUENCE` was written, above those that people may set."""
    sets_acls: bool = config["zookeeper.set.acl"]
    async with ZooKeeperClient(zookeeper_settings(config.originals)) as zk:
        await check_access(zk, set_acl=sets_acls)
        await make_layout(zk, partial(acls_for, secure=sets_acls), rules=False, tokens=False)
        stat = await zk.set(SEQUENCE, b"")
    found: int = stat.version + config["reserved.broker.max.id"]
    log.info("ZooKeeper has given this broker an id", broker=found)
    return found
