"""What the tool says: a diff by path, warnings, why it does not begin; for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.text import Text

from barnabas.cli.tables import console
from barnabas.client.zookeeper_migration.survey import Survey
from barnabas.core.zookeeper.migration import Change, Make, Remove, SetAcls, Target
from barnabas.core.zookeeper.migration_checks import (
    brokers_that_differ,
    is_nobody_elses,
    left_empty,
    lock_outs,
    missing_roots,
    names_host,
    out_of_reach,
    standing_open,
    whose,
)
from barnabas.core.zookeeper.paths import COME_AND_GO
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import ZnodeId

_NAMED = 10


def show_diff(changes: Iterable[Change]) -> None:
    """Print every change: the path, then in red what goes and in green what comes."""
    out = console()
    for change in changes:
        out.print(Text(change.path, "bold"), soft_wrap=True)
        if not isinstance(change, Make):
            out.print(Text(f"  - {_acls(change.before)}", "red"), soft_wrap=True)
        if not isinstance(change, Remove):
            out.print(Text(f"  + {_acls(change.after)}", "green"), soft_wrap=True)


def change_facts(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Give the changes for programs."""
    return [
        {
            "path": change.path,
            "action": _ACTIONS[type(change)],
            "before": None if isinstance(change, Make) else [str(acl) for acl in change.before],
            "after": None if isinstance(change, Remove) else [str(acl) for acl in change.after],
        }
        for change in changes
    ]


_ACTIONS: dict[type[Change], str] = {SetAcls: "set", Make: "make", Remove: "remove"}


def survey_facts(seen: Survey, target: Target) -> dict[str, Any]:
    """Give what was found for programs."""
    return {
        "cluster": seen.cluster,
        "authenticated_ids": [str(who) for who in seen.ours],
        "znodes": len(seen.found),
        "open": standing_open(seen.found),
        "unreadable": list(seen.refused),
        "missing_roots": missing_roots(seen.found),
        "left_empty": left_empty(seen.found),
        "brokers_with_the_other_setting": brokers_that_differ(seen.found, secure=target.secure),
        "shared_with": list(seen.shared_with),
    }


def obstacles(seen: Survey, changes: Sequence[Change], target: Target, *, revoke: bool) -> Iterator[str]:
    """Give what forbids to begin; nothing has been changed yet. revoke: whether others may lose their rights."""
    beyond = sorted({*seen.refused, *out_of_reach(changes, seen.ours)})
    if beyond:
        owners = sorted(whose(seen.found, beyond))
        yield (
            f"{_ours(seen.ours)} may not change the ACLs of {len(beyond)} znodes: {named(beyond)}. "
            f"{f'They are of {named(list(map(str, owners)))}. ' if owners else ''}{_remedy(owners)}"
            "Log in as the one who owns them, or have it grant you rights with --grant."
        )
        return
    if is_nobody_elses(target):
        yield (
            f"{_ours(seen.ours)} is ZooKeeper's super user: brokers would be locked out of what it alone owns. Log in "
            "as the brokers do, or say who they are with --grant."
        )
    for lost in () if revoke else lock_outs(changes, target):
        yield (
            f"{lost.who} would be locked out of {lost.count} znodes that it may change now, {lost.path} among them; "
            f"the new owner would be {_ours(seen.ours)}. {_remedy([lost.who])}Keep it in with --grant {lost.who}, or "
            "take its rights on purpose with --revoke-others."
        )


def warnings(seen: Survey, target: Target, chroot: str) -> Iterator[str]:
    """Give what is worth knowing before it begins."""
    missing = missing_roots(seen.found)
    if missing:
        yield (
            f"These secure root paths do not exist in ZooKeeper: {','.join(missing)}. That is usual for "
            f"{' and '.join(COME_AND_GO)}; many of them mean another chroot than Kafka's."
        )
    if target.secure and not chroot:
        yield "There is no chroot: the ACL of / itself changes, and others can make nothing there any more."
    if target.secure and seen.shared_with:
        yield f"Others live below /: {named(seen.shared_with)}. What they have stays theirs; give Kafka a chroot."
    for path in left_empty(seen.found):
        yield f"{path} holds nothing, which stops whoever reads it: it is removed, and made anew by its owner."
    different = brokers_that_differ(seen.found, secure=target.secure)
    if different:
        yield (
            f"Brokers {named(different)} have registered with zookeeper.set.acl={_flag(not target.secure)}: what they "
            f"make stays {'open' if target.secure else 'strict'}. Restart them with {_flag(target.secure)}, then run "
            "this once more."
        )
    for who in seen.ours if target.secure else ():
        if names_host(who):
            yield f"{who} has a host or a realm in its name: brokers on other hosts are others to ZooKeeper. {_STRIP}"


_STRIP = (
    "ZooKeeper strips both with -Dzookeeper.kerberos.removeHostFromPrincipal=true and "
    "-Dzookeeper.kerberos.removeRealmFromPrincipal=true on every server."
)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _remedy(others: Iterable[ZnodeId]) -> str:
    return f"{_STRIP} " if any(map(names_host, others)) else ""


def named(names: Sequence[str]) -> str:
    """Give the first few of them as text."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _ours(ours: Sequence[ZnodeId]) -> str:
    return " and ".join(map(str, ours)) or "Nobody"


def _acls(acls: ZnodeAcls) -> str:
    return ", ".join(map(str, acls))
