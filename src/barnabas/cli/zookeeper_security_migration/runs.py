"""The two runs: to what is wanted, and back to what was; each looks, tells, keeps what was, and changes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import typer
import uvloop

from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat, Steps, progress, show_json
from barnabas.client.zookeeper_migration.carry_out import Outcome, carry_out
from barnabas.client.zookeeper_migration.survey import Survey, cluster_id, other_trees, survey, who_we_are
from barnabas.client.zookeeper_migration.undo_file import read_undo_file, write_undo_file
from barnabas.core.zookeeper.errors import ZooKeeperError
from barnabas.core.zookeeper.migration import Change, Target, before, plan, plan_undo
from barnabas.core.zookeeper.migration_checks import missing_roots, out_of_reach, standing_open
from barnabas.core.zookeeper.migration_undo import UndoFileError, UndoHeader
from barnabas.core.zookeeper.paths import COME_AND_GO
from barnabas.core.zookeeper.security import CREATOR
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.settings import ZooKeeperSettings
from barnabas.net.zookeeper.walk import read_all

from .connecting import check_login, settings_of
from .options import Options
from .report import change_facts, named, obstacles, show_diff, survey_facts, warnings

_TEN: Final = 10


def run(options: Options) -> None:
    """Do what was asked for; CliError when it cannot be."""
    settings = settings_of(options)
    try:
        uvloop.run(_migrate(settings, options) if options.undo is None else _undo(settings, options.undo, options))
    except (ZooKeeperError, UndoFileError) as e:
        raise CliError(str(e)) from None


async def _migrate(settings: ZooKeeperSettings, options: Options) -> None:
    async with ZooKeeperClient(settings) as zk:
        check_login(zk)
        with progress("znodes looked at") as steps:
            seen = await survey(zk, _in_tens(steps))
        await _check_paths(settings, seen, options)
        target = Target(options.secure, (*(seen.ours or (CREATOR,)), *options.grants))
        changes = _changes(seen, target)
        told = list(warnings(seen, target, settings.chroot))
        facts = survey_facts(seen, target) | {"warnings": told}
        for text in told:
            _warn(text)
        reasons = list(obstacles(seen, changes, target, revoke=options.revoke_others)) if seen.ours else []
        if options.dry_run:
            for text in reasons:
                _warn(f"It would not begin: {text}")
            _show_dry_run(changes, facts | {"obstacles": reasons}, options)
            return
        if reasons or not seen.ours:
            raise CliError(" ".join([*(reasons or ["ZooKeeper does not know us."]), "Nothing was changed."]))
        await _change(zk, changes, facts, options, UndoHeader(settings.chroot, seen.cluster, options.secure))


async def _undo(settings: ZooKeeperSettings, file: Path, options: Options) -> None:
    header, kept = read_undo_file(file)
    async with ZooKeeperClient(settings) as zk:
        check_login(zk)
        here = UndoHeader(settings.chroot, await cluster_id(zk), header.secure)
        if here != header:
            raise CliError(
                f"{file} is of cluster {header.cluster or 'without an id'} at {header.chroot or '/'}, and this is "
                f"{here.cluster or 'without an id'} at {here.chroot or '/'}. Nothing was changed."
            )
        with progress("znodes looked at", len(kept)) as steps:
            read = await read_all(zk, kept, steps.advance)
        changes = plan_undo(kept, read.found)
        facts = {"cluster": header.cluster, "undo": str(file), "warnings": []}
        if options.dry_run:
            _show_dry_run(changes, facts, options)
            return
        beyond = sorted({*read.refused, *out_of_reach(changes, await who_we_are(zk))})
        if beyond:
            raise CliError(f"{len(beyond)} ACLs are not ours to change: {named(beyond)}. Nothing was changed.")
        await _change(zk, changes, facts, options, None)


async def _check_paths(settings: ZooKeeperSettings, seen: Survey, options: Options) -> None:
    if not seen.is_kafkas and not seen.refused:
        others = await other_trees(settings)
        meant = f" Kafka's trees of this ensemble: {named(others)}." if others else ""
        raise CliError(
            f"Nothing of Kafka's is at {settings.chroot or '/'}: the wrong chroot?{meant} Nothing was changed."
        )
    missing = [path for path in missing_roots(seen.found) if path not in (*COME_AND_GO, *seen.refused)]
    if options.path_check and missing:
        raise CliError(
            f"These secure root paths do not exist in ZooKeeper: {','.join(missing)}. That might be due to an "
            "incorrect chroot. Nothing was changed, as --enable.path.check wants it."
        )


def _changes(seen: Survey, target: Target) -> list[Change]:
    changes = plan(seen.found, target)
    if seen.ours or not target.secure:
        return changes
    wanting = {*standing_open(seen.found), *missing_roots(seen.found)}  # whose the strict ones should be, nobody knows
    return [change for change in changes if change.path in wanting]


async def _change(
    zk: ZooKeeperClient, changes: Sequence[Change], facts: dict[str, Any], options: Options, header: UndoHeader | None
) -> None:
    if header is not None and changes:
        write_undo_file(options.undo_file, header, map(before, changes))
        facts |= {"undo_file": str(options.undo_file)}
    try:
        with progress("znodes changed", len(changes)) as steps:
            outcome = await carry_out(zk, changes, _in_tens(steps))
    except ZooKeeperError as e:
        kept = f" with --undo-file {options.undo_file}" if header is not None else ""
        raise CliError(f"Interrupted: {e}. Run the same once more{kept}: it goes on where this one ended.") from None
    _show_outcome(outcome, changes, facts, options)


def _show_outcome(outcome: Outcome, changes: Sequence[Change], facts: dict[str, Any], options: Options) -> None:
    if options.output is OutputFormat.JSON:
        show_json(facts | {"dry_run": False, "changes": change_facts(changes), "vanished": outcome.gone})
        return
    skipped = f" {len(outcome.gone)} were gone or used meanwhile: {named(outcome.gone)}." if outcome.gone else ""
    typer.echo(f"{outcome.done} znodes changed.{skipped}" if changes else "Nothing to do: all is so already.")
    if "undo_file" in facts:
        typer.echo(f"To take it back: --undo {facts['undo_file']}")


def _show_dry_run(changes: Sequence[Change], facts: dict[str, Any], options: Options) -> None:
    if options.output is OutputFormat.JSON:
        show_json(facts | {"dry_run": True, "changes": change_facts(changes)})
        return
    show_diff(changes)
    typer.echo(f"{len(changes)} znodes would change." if changes else "Nothing to do: all is so already.")


def _in_tens(steps: Steps) -> Callable[[int], None]:
    """Give what counts for a bar without drawing it for every one of many thousands."""
    left = itertools.count(1)

    def counted(count: int) -> None:
        if next(left) % _TEN == 0:
            steps.advance(_TEN * count)

    return counted


def _warn(text: str) -> None:
    typer.echo(f"Warning: {text}", file=sys.stderr)
