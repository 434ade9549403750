"""`barnabas groups --reset-offsets`."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from barnabas.cli.connection import report_failures, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.groups.selection import partitions_of
from barnabas.cli.tables import OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.client.admin.groups import CONSUMER, CommittedOffset
from barnabas.client.admin.topics import OffsetSpec
from barnabas.client.config import ClientConfig
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode

_DURATION: Final = re.compile(r"(-)?P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)
_RUNNING: Final = "stop its members first; its offsets move only while it has none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Where to, exactly one of these."""

    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    to_datetime: str | None
    by_duration: str | None
    shift_by: int | None
    from_file: Path | None

    @property
    def chosen(self) -> str:
        """Give the flag that was given; CliError when it is none or more."""
        given = {
            "--to-earliest": self.to_earliest,
            "--to-latest": self.to_latest,
            "--to-current": self.to_current,
            "--to-offset": self.to_offset is not None,
            "--to-datetime": self.to_datetime is not None,
            "--by-duration": self.by_duration is not None,
            "--shift-by": self.shift_by is not None,
            "--from-file": self.from_file is not None,
        }
        found = [flag for flag, on in given.items() if on]
        if len(found) != 1:
            raise CliError(f"Say where to, exactly one of {', '.join(given)}.")
        return found[0]


def reset_offsets(
    config: ClientConfig,
    groups: Sequence[str] | None,
    topics: Sequence[str],
    reset: Reset,
    *,
    all_topics: bool,
    execute: bool,
    export: bool,
    output: OutputFormat,
) -> None:
    """Move offsets of groups, or show where they would go."""
    if not topics and not all_topics and reset.from_file is None:
        raise CliError("Say of which topics: --topic NAME or --all-topics.")
    _ = reset.chosen
    timestamp = _timestamp(reset)

    async def work(admin: Admin) -> dict[str, dict[TopicPartition, int]]:
        names = groups
        if names is None:
            names = [g.group_id for g in await admin.list_groups() if g.protocol_type in (CONSUMER, "")]
        plans = {}
        for group in names:
            await _must_be_idle(admin, group)
            plans[group] = await _plan(admin, group, topics, reset, timestamp)
        if execute:
            for group, plan in plans.items():
                results = await admin.commit_offsets(group, {p: CommittedOffset(o) for p, o in plan.items()})
                report_failures({f"{group} {p}": e for p, e in results.items()}, config, "Read on the topics")
        return plans

    plans = run_admin(config, work, needs="Read on the group and on the topics")
    if export:
        typer.echo(_csv(plans, with_groups=groups is None or len(groups) > 1), nl=False)
        return
    rows = [
        {"group": group, "topic": p.topic, "partition": p.partition, "new_offset": offset}
        for group, plan in plans.items()
        for p, offset in sorted(plan.items())
    ]
    if not execute and output is OutputFormat.TABLE:
        typer.echo("This is a rehearsal; --execute moves the offsets.", err=True)
    show(rows, output, empty="There is nothing to move.")


async def _must_be_idle(admin: Admin, group: str) -> None:
    try:
        info = await admin.describe_group(group)
    except ApiError as e:
        if e.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return  # a group may get offsets before its first member comes
        raise
    if info.state not in ("Empty", "Dead"):
        raise CliError(f"Group {group} is {info.state}: {_RUNNING}.")


async def _plan(
    admin: Admin, group: str, topics: Sequence[str], reset: Reset, timestamp: int | None
) -> dict[TopicPartition, int]:
    if reset.from_file is not None:
        return await _within_log(admin, _from_file(reset.from_file, group))
    committed = {p: o.offset for p, o in (await admin.group_offsets(group)).items()}
    partitions = await partitions_of(admin, topics) if topics else sorted(committed)
    if reset.to_earliest:
        return await _at(admin, partitions, OffsetSpec.EARLIEST)
    if reset.to_latest:
        return await _at(admin, partitions, OffsetSpec.LATEST)
    if timestamp is not None:
        ends = await _at(admin, partitions, OffsetSpec.LATEST)
        return {p: o if o >= 0 else ends[p] for p, o in (await _at(admin, partitions, timestamp)).items()}
    if reset.to_offset is not None:
        return await _within_log(admin, dict.fromkeys(partitions, reset.to_offset))
    if reset.shift_by is not None:
        for partition in (p for p in partitions if p not in committed):
            raise CliError(f"Group {group} has no offset for {partition} to shift from.")
        return await _within_log(admin, {p: committed[p] + reset.shift_by for p in partitions})
    ends = await _at(admin, [p for p in partitions if p not in committed], OffsetSpec.LATEST)
    return {p: committed.get(p, ends.get(p, 0)) for p in partitions}


async def _at(admin: Admin, partitions: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = {}
    for partition, listed in (await admin.list_offsets(dict.fromkeys(partitions, int(timestamp)))).items():
        if isinstance(listed, ApiError):
            raise listed
        found[partition] = listed.offset
    return found


async def _within_log(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Bring offsets that are outside the logs to the nearer end, saying so."""
    partitions = list(wanted)
    starts, ends = await _at(admin, partitions, OffsetSpec.EARLIEST), await _at(admin, partitions, OffsetSpec.LATEST)
    plan = {}
    for partition, offset in wanted.items():
        plan[partition] = max(starts[partition], min(offset, ends[partition]))
        if plan[partition] != offset:
            typer.echo(f"{partition}: offset {offset} is outside the log, {plan[partition]} is taken.", err=True)
    return plan


def _timestamp(reset: Reset) -> int | None:
    if reset.to_datetime is not None:
        return parse_datetime(reset.to_datetime)
    if reset.by_duration is not None:
        return int(time.time() * 1000) - parse_duration(reset.by_duration)
    return None


def parse_datetime(text: str) -> int:
    """Give the ms since the epoch of `YYYY-MM-DDTHH:mm:SS.sss`, UTC unless a zone is given; CliError else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CliError(
            f"--to-datetime {text!r}: want YYYY-MM-DDTHH:mm:SS.sss, such as 2026-01-31T12:00:00.000."
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Give the ms of an ISO 8601 duration such as P1DT2H30M; CliError when it is none."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()[1:]):
        raise CliError(f"--by-duration {text!r}: want PnDTnHnMnS, such as P1D or PT30M.")
    total = sum(float(n or 0) * unit for n, unit in zip(match.groups()[1:], _UNITS_MS, strict=True))
    return int(-total if match[1] else total)


def _from_file(path: Path, group: str) -> dict[TopicPartition, int]:
    try:
        rows = [row for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))) if row]
    except OSError as e:
        raise CliError(f"Cannot read {path}: {e.strerror}.") from None
    plan = {}
    for row in rows:
        try:
            owner = row[0] if len(row) == 4 else group
            topic, partition, offset = row[-3:]
            if owner == group:
                plan[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CliError(f"{path}: {','.join(row)!r} is not [GROUP,]TOPIC,PARTITION,OFFSET.") from None
    return plan


def _csv(plans: Mapping[str, Mapping[TopicPartition, int]], *, with_groups: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows: Iterable[list[Any]] = (
        [*([group] if with_groups else []), p.topic, p.partition, offset]
        for group, plan in plans.items()
        for p, offset in sorted(plan.items())
    )
    writer.writerows(rows)
    return out.getvalue()
