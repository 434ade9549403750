"""What a broker has to be allowed on the znodes that are there already, and what to say when it is not (H-34, H-35)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Final

from barnabas.core.zookeeper.migration import Znode
from barnabas.core.zookeeper.migration_checks import names_host
from barnabas.core.zookeeper.paths import ROOT
from barnabas.core.zookeeper.security import holders, rights
from barnabas.core.zookeeper.values import Permission, ZnodeId
from barnabas.core.zookeeper.znodes import acls

NEEDED: Final[Mapping[str, Permission]] = {
    ROOT: Permission.CREATE,
    "/brokers/ids": Permission.CREATE,
    "/brokers/topics": Permission.CREATE,
    "/controller_epoch": Permission.WRITE,
    "/config/changes": Permission.CREATE,
    "/config/users": Permission.READ,
}
"""What a broker does in its first minute, and where: it registers, stands for election, reads what is secret."""
NEEDED_FOR_RULES: Final[Mapping[str, Permission]] = {
    f"{acls.LITERAL}/Topic": Permission.CREATE,
    f"{acls.PREFIXED}/Topic": Permission.CREATE,
    acls.LITERAL_CHANGES: Permission.CREATE,
    acls.EXTENDED_CHANGES: Permission.CREATE,
}
"""What a node does that keeps nothing there but rules."""
TOOL: Final = "barnabas zookeeper-security-migration --zookeeper.acl=secure"
"""What closes open znodes, and what gives rights to others."""
_NAMED: Final = 5
_STRIP: Final = (
    "-Dzookeeper.kerberos.removeHostFromPrincipal=true and -Dzookeeper.kerberos.removeRealmFromPrincipal=true"
)
_LOG_IN: Final = (
    "pass a JAAS file with a section 'Client' by -Djava.security.auth.login.config in KAFKA_OPTS, or use TLS with a key"
)


def out_of_bounds(ours: Sequence[ZnodeId], found: Iterable[Znode], needed: Mapping[str, Permission]) -> list[Znode]:
    """Give those of the znodes that do not allow these ids what is needed there."""
    return [one for one in found if needed[one.path] & ~rights(ours, one.acls)]


def locked_out(ours: Sequence[ZnodeId], refusing: Sequence[Znode], unreadable: Sequence[str], connect: str) -> str:
    """Say who we are, whose the znodes are that refuse us, and what to do.

    unreadable: paths that tell us nothing; connect: `zookeeper.connect`.
    """
    paths = [*(one.path for one in refusing), *unreadable]
    owners = sorted({who for one in refusing for who in holders(one.acls)})
    theirs = f", of {_listed(owners)}" if owners else ", and may not even see whose they are"
    return (
        f"to ZooKeeper this node is {who_text(ours)}, and has no right to go on at {_listed(paths)}{theirs}. "
        f"{_remedy(ours, owners, f'{TOOL} --zookeeper.connect={connect}')}"
    )


def nobody(why: str) -> str:
    """Say that nothing can be made that is ours alone. why: a login failed; empty when there was none."""
    return (
        "zookeeper.set.acl is true, but to ZooKeeper this node is nobody, who can own no znode. "
        f"{why or f'There is no login: {_LOG_IN}'}"
    )


def open_znodes(paths: Sequence[str], looked_at: int, connect: str, *, all_of_them: bool) -> str:
    """Say which covered znodes anybody may change. looked_at: how many were; all_of_them: there are no others."""
    seen = "" if all_of_them else f" among the {looked_at} that were looked at; there are more"
    return (
        f"{len(paths)} znodes can be changed by anybody{seen}: {_listed(paths)}. Once every broker runs with "
        f"zookeeper.set.acl=true, {TOOL} --zookeeper.connect={connect} closes them; with --dry-run it shows them all"
    )


def who_text(ours: Sequence[ZnodeId]) -> str:
    """Name who we are."""
    return " and ".join(map(str, ours)) or "nobody"


def _remedy(ours: Sequence[ZnodeId], owners: Sequence[ZnodeId], tool: str) -> str:
    if not ours:
        return f"Log in as the brokers do: {_LOG_IN}"
    whole = [who for who in (*ours, *owners) if names_host(who)]
    if whole:
        short = min(_short_name(who) for who in whole)
        return (
            "Kerberos names with a host or a realm make each broker somebody else: start each server of ZooKeeper with "
            f"{_STRIP}. Before, as who owns the znodes or as ZooKeeper's super user, give them to the name that "
            f"remains: {tool} --grant {quote(short)}"
        )
    return (
        "Log in as the brokers do (the section 'Client' of the JAAS file), or have who owns them give rights to this "
        f"name too: {tool} {' '.join(f'--grant {quote(str(who))}' for who in ours)}"
    )


def _short_name(who: ZnodeId) -> str:
    return f"{who.scheme}:{who.id.partition('@')[0].partition('/')[0]}"


def _listed(names: Sequence[object]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more
