"""Changes that a broker writes itself, as all did before they forwarded them to the controller (KIP-590).

Any broker may write configs, quotas, credentials and tokens, several at once. So each znode that a change looks at is
read for it, and the change is made only if they are still as they were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.paths import child, parent
from barnabas.core.zookeeper.values import Check, Operation
from barnabas.core.zookeeper.znodes import configs, tokens
from barnabas.core.zookeeper.znodes.configs import CONFIG, Passwords
from barnabas.core.zookeeper.znodes.notifications import CONFIG_CHANGES
from barnabas.core.zookeeper.znodes.operations import AclsFor, KnownZnodes
from barnabas.core.zookeeper.znodes.projection import Told, ZnodeChange
from barnabas.core.zookeeper.znodes.updates import config_update, token_update
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.wire.errors import ApiError, ErrorCode

NOTIFIED: Final = (CONFIG_CHANGES, tokens.CHANGES)
"""Below which brokers tell of such changes."""
_LAID_OUT: Final = 2
"""How deep the znodes lie that are always there."""
_ENTITY_DEPTHS: Final = (2, 4)
"""How deep below `/config` there is what holds something: `topics/orders`, `users/bob/clients/app`."""


class Found(NamedTuple):
    """A znode that was read, and the names of its children."""

    znode: Znode
    children: Sequence[str] = ()


def check_direct(delta: MetadataDelta) -> None:
    """ApiError when the change is not one that every broker may make: NOT_CONTROLLER, or nothing keeps it there."""
    if delta.topics or delta.deleted_topics or delta.brokers or delta.features or delta.producer_ids or delta.acls:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller alone changes this")
    for resource in delta.configs:
        if not configs.has_znode(resource):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"ZooKeeper keeps no configs of {resource.type.name}")


def looked_at(changes: Iterable[ZnodeChange]) -> Iterator[str]:
    """Give the paths to be read for some changes: of what they concern, and of what it lies below."""
    for change in changes:
        if not isinstance(change, Told):
            path = change.path
            while path.count("/") > _LAID_OUT:
                yield path
                path = parent(path)


def update(image: MetadataImage, path: str, znode: Znode | None, passwords: Passwords) -> Iterable[VersionedRecord]:
    """Give the records that bring an image to what a znode says, None being one that is gone."""
    if path.startswith(f"{tokens.TOKENS}/"):
        return token_update(image, path.removeprefix(f"{tokens.TOKENS}/"), znode)
    below = path.removeprefix(f"{CONFIG}/")
    if below != path and below.count("/") + 1 in _ENTITY_DEPTHS:
        return config_update(image, below, znode, passwords)
    return ()


def transactions(
    changes: Iterable[ZnodeChange], found: Mapping[str, Found | None], acls_for: AclsFor
) -> Iterator[list[Operation]]:
    """Give what to ask of ZooKeeper: one transaction for each entity, which its notification ends.

    found: all that `looked_at` names, None for what is not there. A transaction fails when something has changed since.
    """
    there = [one for one in found.values() if one is not None]
    below = [child(one.znode.path, name) for one in there for name in one.children]
    known = KnownZnodes([one.znode for one in there], [*_laid_out(found), *below])
    group: list[ZnodeChange] = []
    for change in changes:
        group.append(change)
        if isinstance(change, Told):
            yield [*_checks(group, found), *known.operations(group, acls_for)]
            group = []


def _checks(group: Iterable[ZnodeChange], found: Mapping[str, Found | None]) -> Iterator[Operation]:
    for path in dict.fromkeys(change.path for change in group if not isinstance(change, Told)):
        one = found[path]
        if one is not None:
            yield Check(path, one.znode.version)


def _laid_out(paths: Iterable[str]) -> Iterator[str]:
    tops = {"/".join(path.split("/")[: _LAID_OUT + 1]) for path in (*paths, *NOTIFIED)}
    for path in sorted(tops):
        yield parent(path)
        yield path
