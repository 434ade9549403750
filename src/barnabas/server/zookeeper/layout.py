"""The znodes that a cluster has before there is anything in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.core.zookeeper.errors import NodeExistsError
from barnabas.core.zookeeper.paths import CONSUMERS
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.znodes import acls, brokers, clients, control, notifications, tokens, topics
from barnabas.core.zookeeper.znodes.configs import CONFIG, KINDS
from barnabas.core.zookeeper.znodes.control import CLUSTER_ID, FEATURES
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.zookeeper.client import ZooKeeperClient

SEQUENCE: Final = "/brokers/seqid"
"""Written once for each broker that ZooKeeper gives an id to; its version is the number of the last."""
ALWAYS: Final = (
    CONSUMERS,
    brokers.IDS,
    topics.TOPICS,
    notifications.CONFIG_CHANGES,
    topics.DELETIONS,
    SEQUENCE,
    notifications.ISR_CHANGES,
    control.PRODUCER_IDS,
    notifications.LOG_DIR_EVENTS,
    *(f"{CONFIG}/{kind}" for kind in KINDS),
    clients.CLIENTS,
    clients.USERS,
    clients.IPS,
)
"""What every broker makes when it starts, as Kafka 3.9 does."""
OF_RULES: Final = (
    *(f"{root}/{kind}" for root in (acls.LITERAL, acls.PREFIXED) for kind in acls.RESOURCE_TYPES),
    acls.LITERAL_CHANGES,
    acls.EXTENDED_CHANGES,
)
"""What one whose authorizer keeps its rules there makes as well."""
OF_TOKENS: Final = (tokens.TOKENS, tokens.CHANGES)
"""What one with delegation tokens makes as well."""


def with_parents(paths: tuple[str, ...]) -> Iterator[str]:
    """Give paths and what they lie below, each once, parents first."""
    seen = set()
    for path in paths:
        parts = path.split("/")
        for end in range(2, len(parts) + 1):
            one = "/".join(parts[:end])
            if one not in seen:
                seen.add(one)
                yield one


def layout(*, rules: bool, tokens: bool) -> list[str]:
    """Give the znodes that there are to be, parents first."""
    return list(with_parents((*ALWAYS, *(OF_RULES if rules else ()), *(OF_TOKENS if tokens else ()))))


async def make_layout(
    zk: ZooKeeperClient, acls_for: Callable[[str], ZnodeAcls], *, rules: bool, tokens: bool
) -> list[str]:
    """Make the chroot and the znodes that are missing of those that there are to be; give all of these."""
    await zk.make_chroot(acls_for("/"))
    wanted = layout(rules=rules, tokens=tokens)
    for path in wanted:
        try:
            await zk.create(path, None, acls_for(path))
        except NodeExistsError:
            pass
    return wanted


async def make_features(zk: ZooKeeperClient, acls_for: Callable[[str], ZnodeAcls]) -> None:
    """Say that features may be finalized, unless somebody has: brokers of before 2.7 say nothing of them (KIP-584)."""
    try:
        await zk.create(FEATURES, control.features({}), acls_for(FEATURES))
    except NodeExistsError:
        pass


async def cluster_id(zk: ZooKeeperClient, acls_for: Callable[[str], ZnodeAcls], new_id: Callable[[], str]) -> str:
    """Give the cluster's id, which the first broker there makes."""
    for path in with_parents((CLUSTER_ID,)):
        data = control.cluster_id(new_id()) if path == CLUSTER_ID else None
        try:
            await zk.create(path, data, acls_for(path))
        except NodeExistsError:
            pass
    found, _ = await zk.get(CLUSTER_ID)
    return control.cluster_id_in(Znode(CLUSTER_ID, found))
