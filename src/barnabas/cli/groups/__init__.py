"""`barnabas groups`: kafka-consumer-groups with its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, exactly_one
from barnabas.cli.errors import CliError
from barnabas.cli.groups.delete import delete_groups, delete_offsets
from barnabas.cli.groups.describe import Section, describe
from barnabas.cli.groups.listing import list_groups
from barnabas.cli.groups.reset import Reset, reset_offsets
from barnabas.cli.tables import Output, OutputFormat


def command(  # the flags are Kafka's
    filters: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="What --state and --type of --list may be given.")
    ] = None,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    list_: Annotated[bool, typer.Option("--list", help="List groups.")] = False,
    describe_: Annotated[bool, typer.Option("--describe", help="Show a group: offsets and lag.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete groups without members.")] = False,
    delete_offsets_: Annotated[
        bool, typer.Option("--delete-offsets", help="Forget what a group committed for topics.")
    ] = False,
    reset_offsets_: Annotated[
        bool, typer.Option("--reset-offsets", help="Move a group's offsets; a rehearsal without --execute.")
    ] = False,
    group: Annotated[list[str] | None, typer.Option(help="The group; may be repeated.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Every group.")] = False,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC[:0,1]", help="A topic, or some of its partitions.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every topic the group has offsets for.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="With --describe: offsets and lag, as without.")] = False,
    members: Annotated[bool, typer.Option("--members", help="With --describe: the members.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With --describe: epochs, and the members' partitions.")
    ] = False,
    state: Annotated[
        bool, typer.Option("--state", help="With --describe: the state; with --list: state, or only states A,B.")
    ] = False,
    type_: Annotated[bool, typer.Option("--type", help="With --list: the type, or only types A,B.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the beginning of each log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of each log.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To where it is.")] = False,
    to_offset: Annotated[int | None, typer.Option(help="To this offset.")] = None,
    to_datetime: Annotated[str | None, typer.Option(metavar="2026-01-31T12:00:00.000", help="To a time.")] = None,
    by_duration: Annotated[str | None, typer.Option(metavar="P1DT2H", help="Back by a duration from now.")] = None,
    shift_by: Annotated[int | None, typer.Option(help="Forward by so many records, or back if negative.")] = None,
    from_file: Annotated[Path | None, typer.Option(metavar="CSV", help="To the offsets in a file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Really do it.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print in the form that --from-file reads.")] = False,
    timeout: Annotated[int, typer.Option(help="How long to wait for the coordinator, ms.")] = 30000,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show consumer groups with their lag, move their offsets, delete them, as kafka-consumer-groups does.

    Examples:

      barnabas groups --bootstrap-server localhost:9092 --describe --group reports

      barnabas groups --bootstrap-server localhost:9092 --reset-offsets --group reports --topic flights
      --to-earliest --execute
    """
    action = exactly_one(
        {
            "--list": list_,
            "--describe": describe_,
            "--delete": delete,
            "--delete-offsets": delete_offsets_,
            "--reset-offsets": reset_offsets_,
        }
    )
    config = client_config(bootstrap_server, command_config, {"default.api.timeout.ms": str(max(timeout, 1))})
    if action == "--list":
        list_groups(config, filters or [], states=state, types=type_, output=output)
        return
    if not group and not all_groups:
        raise CliError("Say which group: --group NAME or --all-groups.")
    groups = None if all_groups else group
    if action == "--describe":
        if members + state + offsets > 1:
            raise CliError("Give one of --members, --offsets and --state: each shows another side of the group.")
        if filters:
            raise CliError(f"{filters[0]!r} is not understood: only --list takes states and types.")
        section = Section.MEMBERS if members else Section.STATE if state else Section.OFFSETS
        describe(config, groups, section, verbose=verbose, output=output)
    elif action == "--delete":
        if topic:
            raise CliError("--delete takes whole groups; --delete-offsets forgets the offsets of topics.")
        delete_groups(config, groups, output)
    elif action == "--delete-offsets":
        delete_offsets(config, groups, topic or [], output)
    else:
        if dry_run and execute:
            raise CliError("Give --dry-run or --execute, not both.")
        reset = Reset(
            to_earliest=to_earliest,
            to_latest=to_latest,
            to_current=to_current,
            to_offset=to_offset,
            to_datetime=to_datetime,
            by_duration=by_duration,
            shift_by=shift_by,
            from_file=from_file,
        )
        reset_offsets(
            config, groups, topic or [], reset, all_topics=all_topics, execute=execute, export=export, output=output
        )
