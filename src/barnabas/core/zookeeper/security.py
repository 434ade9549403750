"""The ACL of every znode of a Kafka cluster: by its path, and by whether the cluster is secured (KIP-38)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from barnabas.core.zookeeper.paths import CONSUMERS, is_secret
from barnabas.core.zookeeper.values import ANYONE, OPEN_ACLS, READABLE, Permission, ZnodeAcl, ZnodeId

CREATOR: Final = ZnodeId("auth", "")
"""Whoever asks: ZooKeeper puts every id in its place that the session has logged in with."""
_SASL_SUPER: Final = ZnodeId("sasl", "super")
ZnodeAcls = tuple[ZnodeAcl, ...]


def acls_for(path: str, *, secure: bool, owners: tuple[ZnodeId, ...] = (CREATOR,)) -> ZnodeAcls:
    """Give the ACL of a znode, in the order in which Kafka 3.9 stores it.

    secure: `zookeeper.set.acl`. owners: who gets all rights; whoever makes it unless others are named. Everybody may
    read it, except what is secret; `/consumers` is open to all either way, as old consumers write below it. KIP-38.
    """
    if not secure or path == CONSUMERS:
        return OPEN_ACLS
    return _strict(owners, is_secret(path))


@lru_cache(maxsize=16)
def _strict(owners: tuple[ZnodeId, ...], secret: bool) -> ZnodeAcls:
    strict = tuple(ZnodeAcl(Permission.ALL, who.scheme, who.id) for who in dict.fromkeys(owners))
    return strict if secret else (*strict, READABLE)


def same(one: ZnodeAcls, other: ZnodeAcls) -> bool:
    """Say whether two ACLs allow the same: their order means nothing."""
    return one is other or one == other or (len(one) > 1 and frozenset(one) == frozenset(other))


def is_open(acls: Iterable[ZnodeAcl]) -> bool:
    """Say whether anybody may do more than read."""
    return any(acl.who == ANYONE and acl.permissions & ~Permission.READ for acl in acls)


def holders(acls: Iterable[ZnodeAcl]) -> set[ZnodeId]:
    """Give those who have more than the right to read by their name."""
    return {acl.who for acl in acls if acl.who != ANYONE and acl.permissions & ~Permission.READ}


def is_super(who: ZnodeId) -> bool:
    """Say whether it is ZooKeeper's own super user, whom no broker logs in as."""
    return who.scheme == "super" or who == _SASL_SUPER


def may_administer(ours: Sequence[ZnodeId], acls: Iterable[ZnodeAcl]) -> bool:
    """Say whether these ids may change the ACL of a znode that has this one."""
    return Permission.ADMIN in rights(ours, acls)


def rights(ours: Sequence[ZnodeId], acls: Iterable[ZnodeAcl]) -> Permission:
    """Give what these ids, all of one session, may do to a znode with this ACL.

    The SASL user `super` is taken for everybody who has a name by SASL, and for nobody else.
    """
    if any(who.scheme == "super" for who in ours):
        return Permission.ALL
    found = Permission(0)
    for acl in acls:
        if acl.who in (ANYONE, *ours) or (acl.scheme == _SASL_SUPER.scheme and _SASL_SUPER in ours):
            found |= acl.permissions
    return found
