"""What must be true after a chaos run. Each check gives what it found wrong, nothing when all is well.

`Log` is what is in a partition in the end: offset and mark of every record, in the order in which it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.history import History, Mark

Log = Sequence[tuple[int, Mark]]
SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cluster has after a run. committed: by group and partition; items: by who was asked, kind and name."""

    logs: Mapping[int, Log]
    committed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    items: Mapping[str, Mapping[tuple[str, str], str | None]] = field(default_factory=dict)


def lost(history: History, outcome: Outcome) -> list[str]:
    """Every acknowledged record is there, at the offset that its writer was told."""
    found = []
    for partition, log in outcome.logs.items():
        at = dict(log)
        where = {mark: offset for offset, mark in log}
        for record in history.acknowledged:
            if record.partition != partition:
                continue
            if record.mark not in where:
                found.append(
                    f"partition {partition}: {record.mark} was acknowledged at offset {record.offset}, "
                    f"{record.at:.1f} s into the run, and is gone"
                )
            elif record.offset >= 0 and at.get(record.offset) != record.mark:
                found.append(
                    f"partition {partition}: {record.mark} was acknowledged at offset {record.offset} "
                    f"and is at {where[record.mark]}"
                )
    return found


def duplicated(history: History, outcome: Outcome) -> list[str]:
    """No record is there twice: every writer is idempotent and sends each number once."""
    found = []
    for partition, log in outcome.logs.items():
        first: dict[Mark, int] = {}
        for offset, mark in log:
            if mark in first:
                found.append(f"partition {partition}: {mark} is at {first[mark]} and again at {offset}")
            first.setdefault(mark, offset)
    return found


def reordered(history: History, outcome: Outcome) -> list[str]:
    """Each writer's records stand in the order in which they were sent, and offsets grow."""
    found = []
    for partition, log in outcome.logs.items():
        newest: dict[str, int] = {}
        last = -1
        for offset, mark in log:
            if offset <= last:
                found.append(f"partition {partition}: offset {offset} comes after {last}")
            if mark.number < newest.get(mark.writer, -1):
                found.append(f"partition {partition}: {mark} at {offset} comes after number {newest[mark.writer]}")
            newest[mark.writer] = max(mark.number, newest.get(mark.writer, -1))
            last = max(offset, last)
    return found


def phantoms(history: History, outcome: Outcome) -> list[str]:
    """What a consumer was given is still there, at the same place: nothing is shown before it is safe."""
    logs = {partition: dict(log) for partition, log in outcome.logs.items()}
    return [
        f"partition {c.partition}: {c.member} of {c.group} was given {c.mark} at {c.offset}, "
        f"where there is {logs[c.partition].get(c.offset)} now"
        for c in history.consumed
        if logs[c.partition].get(c.offset) != c.mark
    ]


def unread(history: History, outcome: Outcome) -> list[str]:
    """Every group was given every acknowledged record."""
    found = []
    for group in sorted({c.group for c in history.consumed}):
        given = {(c.partition, c.mark) for c in history.consumed if c.group == group}
        found += [
            f"partition {a.partition}: {group} was never given {a.mark} at {a.offset}"
            for a in history.acknowledged
            if (a.partition, a.mark) not in given
        ]
    return found


def lost_commits(history: History, outcome: Outcome) -> list[str]:
    """No group began to read before an offset that had been acknowledged as committed, nor has it fallen back now."""
    found = [
        f"partition {t.partition}: {t.member} of {t.group} began at {t.offset}, though {t.committed} was committed"
        for t in history.taken_over
        if t.offset < t.committed
    ]
    for (group, partition), offset in outcome.committed.items():
        highest = history.highest_commit(group, partition)
        if offset < highest:
            found.append(f"partition {partition}: {group} is at {offset}, though {highest} was committed")
    return found


def lost_changes(history: History, outcome: Outcome) -> list[str]:
    """Whoever is asked knows of every acknowledged change."""
    return [
        f"{asked}: {kind} {name} is {_said(items.get((kind, name)))}, "
        f"and was {' or '.join(sorted(map(_said, item.allowed)))}"
        for asked, items in outcome.items.items()
        for (kind, name), item in history.items.items()
        if items.get((kind, name)) not in item.allowed
    ]


def not_controller(history: History, outcome: Outcome) -> list[str]:
    """No client was told NOT_CONTROLLER: finding the controller is the cluster's business (KIP-590)."""
    return [f"{what} ({count} times)" for what, count in history.errors.items() if "NOT_CONTROLLER" in what]


def surprises(history: History, outcome: Outcome) -> list[str]:
    """Nothing happened that must not happen whatever the network does."""
    return list(history.surprises)


Check = Callable[[History, Outcome], list[str]]
CHECKS: Final[tuple[Check, ...]] = (
    lost,
    duplicated,
    reordered,
    phantoms,
    unread,
    lost_commits,
    lost_changes,
    not_controller,
    surprises,
)


def all_wrong(history: History, outcome: Outcome) -> dict[str, list[str]]:
    """Give what each check found, by its first line; only those that found something."""
    found = {(check.__doc__ or "").partition("\n")[0]: check(history, outcome) for check in CHECKS}
    return {what: wrong for what, wrong in found.items() if wrong}


def shown(wrong: Iterable[str]) -> str:
    """Give the first few of what is wrong, and how many more there are."""
    lines = list(wrong)
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join(f"    {line}" for line in (*lines[:SHOWN], *more))


def _said(value: str | None) -> str:
    return "not there" if value is None else repr(value)
