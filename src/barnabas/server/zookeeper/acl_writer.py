"""CreateAcls and DeleteAcls on rules in ZooKeeper, which any number of nodes may change at once (KIP-11, A-34)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from barnabas.core.metadata.acl_changes import FilterResult, looked_through, refused_filter
from barnabas.core.metadata.acls import AclsImage
from barnabas.core.zookeeper.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeperError,
)
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.znodes import acls
from barnabas.core.zookeeper.znodes.acl_changes import (
    Rules,
    matched_by,
    named_pattern,
    operations,
    refused_rule,
    rules_in,
    with_rules,
    without_rules,
)
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError
from barnabas.model.acl import AclBinding, AclBindingFilter, ResourcePattern
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import each
from barnabas.wire.errors import ApiError, ErrorCode

TRIES: Final = 11
"""Of one change of a pattern's rules, as in AclAuthorizer; whoever was faster makes one fail."""
PAUSE_S: Final = 0.1
Change = Callable[[Rules], Rules]


class AclWriter:
    """Changes rules pattern by pattern: what stands there is read, and replaced only if it is still the same."""

    def __init__(
        self,
        zk: ZooKeeperClient,
        acls_for: Callable[[str], ZnodeAcls],
        written: Callable[[ResourcePattern], Awaitable[None]],
    ) -> None:
        """written: takes up what a pattern's znode says now, before the change is answered."""
        self._zk = zk
        self._acls_for = acls_for
        self._written = written
        self._turn = asyncio.Lock()

    async def create(self, wanted: Sequence[AclBinding]) -> list[ApiError | None]:
        """Add the rules that are not there yet; the answer says of each, in order, why not."""
        results = [refused_rule(binding) for binding in wanted]
        by_pattern: defaultdict[ResourcePattern, list[AclBinding]] = defaultdict(list)
        for binding, refusal in zip(wanted, results, strict=True):
            if refusal is None:
                by_pattern[binding.pattern].append(binding)
        failed: dict[ResourcePattern, ApiError] = {}

        async def one(pattern: ResourcePattern) -> Iterable[ResourcePattern]:
            try:
                await self._change(pattern, partial(with_rules, wanted=by_pattern[pattern]))
            except ApiError as e:
                failed[pattern] = e
            return ()

        async with self._turn:
            await each(by_pattern, one)
        return [refusal or failed.get(one.pattern) for one, refusal in zip(wanted, results, strict=True)]

    async def delete(self, image: AclsImage, filters: Sequence[AclBindingFilter]) -> list[FilterResult]:
        """Remove what the filters match; each rule stands in the answer of the first filter that matches it.

        image: the rules as far as they are known here; rules of a pattern that a filter names are found without it. A
        filter that meets a pattern whose rules cannot be changed is answered by why.
        """
        results: list[FilterResult] = [refused_filter(wanted) or [] for wanted in filters]
        good = [wanted for wanted, refusal in zip(filters, results, strict=True) if not isinstance(refusal, ApiError)]
        meant = [await _patterns(image, wanted) for wanted in good]
        patterns = sorted(set().union(*meant), key=acls.path)
        deleted: dict[ResourcePattern, Rules | ApiError] = {}

        async def one(pattern: ResourcePattern) -> Iterable[ResourcePattern]:
            try:
                deleted[pattern] = await self._change(pattern, partial(without_rules, filters=good))
            except ApiError as e:
                deleted[pattern] = e
            return ()

        async with self._turn:
            await each(patterns, one)
        outcomes = {pattern: deleted[pattern] for pattern in patterns}
        answers = iter([_answer(outcomes, good, at, its) for at, its in enumerate(meant)])
        return [found if isinstance(found, ApiError) else next(answers) for found in results]

    async def _change(self, pattern: ResourcePattern, change: Change) -> Rules:
        """Change the rules of a pattern, and give those that are gone by it; ApiError when that cannot be done."""
        try:
            gone = await self._insist(pattern, change)
        except (ZooKeeperError, ZnodeError) as e:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"rules in ZooKeeper were not changed: {e}") from None
        with suppress(ZooKeeperError):  # the change is made; whoever follows the rules reads all of them again
            await self._written(pattern)
        return gone

    async def _insist(self, pattern: ResourcePattern, change: Change) -> Rules:
        path = acls.path(pattern)
        perhaps: dict[AclBinding, None] = {}  # gone by a try of ours whose answer was lost, if it was done
        for number in range(TRIES):
            if number:
                await asyncio.sleep(PAUSE_S)
                await self._zk.sync(path)  # else the server that we talk to may still not know who was faster
            was = await read_znode(self._zk, path)
            found = rules_in(was)
            left = change(found)
            gone = [rule for rule in found if rule not in left]
            try:
                asked = operations(pattern, was, left, self._acls_for)
                if asked:
                    await self._zk.multi(asked)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
            except (ConnectionLossError, SessionExpiredError) as e:
                if e.detail:  # nobody was asked, in all the time that there was
                    raise
                perhaps.update(dict.fromkeys(gone))
                continue
            return tuple(dict.fromkeys((*perhaps, *gone)))
        raise ZooKeeperError(path, f"others changed it each time, in {TRIES} tries")


async def read_znode(zk: ZooKeeperClient, path: str) -> Znode | None:
    """Give the znode as it is now; None when there is none."""
    try:
        data, stat = await zk.get(path)
        return Znode(path, data, stat.version, stat.czxid)
    except NoNodeError:
        return None


async def _patterns(image: AclsImage, wanted: AclBindingFilter) -> set[ResourcePattern]:
    named = named_pattern(wanted)
    found = set() if named is None else {named}
    for rows in looked_through(image, wanted):
        found.update(rule.pattern for _, rule in rows if "/" not in rule.pattern.name)
        await asyncio.sleep(0)
    return found


def _answer(
    outcomes: Mapping[ResourcePattern, Rules | ApiError],
    filters: Sequence[AclBindingFilter],
    at: int,
    patterns: Iterable[ResourcePattern],
) -> FilterResult:
    for pattern in patterns:
        if isinstance(error := outcomes[pattern], ApiError):
            return error
    rules = (rule for gone in outcomes.values() if not isinstance(gone, ApiError) for rule in gone)
    return [rule for rule in rules if matched_by(rule, filters) == at]
