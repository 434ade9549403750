"""`barnabas reassign --execute` and `--cancel`: moves begun and called off."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.cli.errors import CliError
from barnabas.cli.reassign.cluster_view import assignment_of, check_brokers, with_log_dirs
from barnabas.cli.reassign.documents import Plan
from barnabas.cli.reassign.states import Progress, progress_of
from barnabas.cli.reassign.throttles import clear, moves, throttle_log_dirs, throttle_moves
from barnabas.cli.tables import progress
from barnabas.client.admin import Admin
from barnabas.client.admin.reassignments import Replica
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode

_LOOK_S: Final = 0.2
_SETTLING_S: Final = 1.0
"""How long to look again: a broker hears of the end of a move a moment after the controller has."""
_SETTLING_WAITED_S: Final = 60.0
"""The same for moves that were begun and waited for, of which hardly one has failed: a broker may be busy."""


class Limits(NamedTuple):
    """How fast it may go, bytes a second; None for as fast as it can."""

    between_brokers: int | None = None
    between_log_dirs: int | None = None


async def begin(
    admin: Admin, plan: Plan, limits: Limits, *, additional: bool, keep_factor: bool, timeout_ms: int
) -> Plan:
    """Begin the moves of a plan, throttles first; give how it was before, to go back to."""
    ongoing = await admin.list_partition_reassignments()
    if ongoing and not additional:
        raise CliError(
            f"{len(ongoing)} partitions are being reassigned already: wait for them (--list), or add --additional to "
            "begin these as well, or to change the throttle of those."
        )
    await check_brokers(admin, {broker for brokers in plan.replicas.values() for broker in brokers})
    everything = await assignment_of(admin, {p.topic for p in plan.replicas})
    missing = sorted(str(p) for p in plan.replicas if p not in everything)
    if missing:
        raise CliError(f"There is no partition {', '.join(missing)}.")
    before = {p: everything[p] for p in plan.replicas}
    saved = await with_log_dirs(admin, before)
    if limits.between_brokers is not None:
        await throttle_moves(admin, moves(ongoing, before, plan.replicas), limits.between_brokers)
    if limits.between_log_dirs is not None:
        await throttle_log_dirs(admin, {r.broker for r in plan.log_dirs}, limits.between_log_dirs)
    refused = await admin.alter_partition_reassignments(
        {p: list(to) for p, to in plan.replicas.items()}, allow_replication_factor_change=not keep_factor
    )
    _check(refused, "reassigned")
    await _move_log_dirs(admin, plan.log_dirs, timeout_ms)
    return saved


async def finish(admin: Admin, plan: Plan, *, preserve_throttles: bool, settling_s: float = _SETTLING_S) -> Progress:
    """Give how far a plan is; once nothing moves any more its throttles go, unless they are to be preserved.

    settling_s: how long to look again at what seems to have failed.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settling_s
    found = await progress_of(admin, plan)
    while found.failed and loop.time() < deadline:
        await asyncio.sleep(_LOOK_S)
        found = await progress_of(admin, plan)
    if not found.anything_moves and not preserve_throttles:
        await clear_throttles(admin, plan)
    return found


async def wait(admin: Admin, plan: Plan) -> Progress:
    """Wait until all of a plan is done, showing a bar, and take its throttles away."""
    total = len(plan.replicas) + len(plan.log_dirs)
    with progress("moving", total) as bar:
        counted = 0
        while (found := await progress_of(admin, plan)).moving:
            bar.advance(total - found.moving - counted)
            counted = total - found.moving
            await asyncio.sleep(_LOOK_S)
    return await finish(admin, plan, preserve_throttles=False, settling_s=_SETTLING_WAITED_S)


class Cancelled(NamedTuple):
    """What was called off."""

    partitions: list[TopicPartition]
    replicas: list[Replica]


async def cancel(admin: Admin, plan: Plan, *, preserve_throttles: bool, timeout_ms: int) -> Cancelled:
    """Call the moves of a plan off that are still on their way."""
    ongoing = await admin.list_partition_reassignments()
    partitions = sorted(p for p in plan.replicas if p in ongoing)
    if partitions:
        _check(await admin.alter_partition_reassignments(dict.fromkeys(partitions)), "called off")
    back: dict[Replica, str] = {}
    if plan.log_dirs:
        where = await admin.describe_replica_log_dirs(plan.log_dirs)
        back = {r: at.current for r, at in where.items() if at.future is not None and at.current is not None}
        await _move_log_dirs(admin, back, timeout_ms)
    if not preserve_throttles:
        await clear_throttles(admin, plan)
    return Cancelled(partitions, sorted(back))


async def clear_throttles(admin: Admin, plan: Plan) -> None:
    """Take the throttles away: which brokers took part is not known any more, so those of all that live."""
    if admin.cluster.config.asks_controllers:
        brokers = {broker for to in plan.replicas.values() for broker in to}
    else:
        brokers = {node.id for node in await admin.nodes()}
    await clear(admin, {p.topic for p in plan.replicas}, brokers)


async def _move_log_dirs(admin: Admin, wanted: Mapping[Replica, str], timeout_ms: int) -> None:
    """Begin moves between directories; a replica that its broker does not have yet is tried again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    left = dict(wanted)
    while left:
        results = await admin.alter_replica_log_dirs(left)
        late = {r: e for r, e in results.items() if e is not None and e.code == ErrorCode.REPLICA_NOT_AVAILABLE}
        _check({r: e for r, e in results.items() if r not in late}, "moved between log directories")
        left = {r: path for r, path in left.items() if r in late}
        if left and loop.time() > deadline:
            raise CliError(f"Not begun in time, for want of the replica: {', '.join(map(str, sorted(left)))}.")
        if left:
            await asyncio.sleep(_LOOK_S)


def _check(results: Mapping[TopicPartition, ApiError | None] | Mapping[Replica, ApiError | None], done: str) -> None:
    bad = [f"{what}: {error.message or error.code.message}" for what, error in sorted(results.items()) if error]
    if bad:
        raise CliError("\n".join([f"Not {done}:", *bad]))
