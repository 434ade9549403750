"""What must be true after a chaos run of loops. Each check gives what it found wrong, nothing when all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.checks import Log
from tests.chaos.history import Mark


@dataclass(frozen=True, slots=True)
class Outcome:
    """What there is in the end: the topics from the first source to the last target, each with its committed records
    by partition; what readers were shown of them on the way; and the surprises."""

    topics: Mapping[str, Mapping[int, Log]]
    shown: Mapping[str, Mapping[int, Log]] = field(default_factory=dict)
    surprises: tuple[str, ...] = ()


def lost(outcome: Outcome) -> list[str]:
    """Every record of the source is in every target."""
    return [
        f"{topic}, partition {partition}: {mark} is missing"
        for topic, partition, wanted, found in _targets(outcome)
        for mark in Counter(wanted) - Counter(found)
    ]


def duplicated(outcome: Outcome) -> list[str]:
    """No target has more than the source has."""
    return [
        f"{topic}, partition {partition}: {mark} is there {times + 1} times"
        for topic, partition, wanted, found in _targets(outcome)
        for mark, times in (Counter(found) - Counter(wanted)).items()
    ]


def reordered(outcome: Outcome) -> list[str]:
    """Each partition of a target has the source's order."""
    wrong = []
    for topic, partition, wanted, found in _targets(outcome):
        place = {mark: n for n, mark in enumerate(wanted)}
        newest = -1
        for mark in found:
            if place.get(mark, newest) < newest:
                wrong.append(f"{topic}, partition {partition}: {mark} comes after {wanted[newest]}")
            newest = max(newest, place.get(mark, newest))
    return wrong


def phantoms(outcome: Outcome) -> list[str]:
    """Who reads what is committed is shown what is there in the end, all of it, in order."""
    wrong = []
    for topic, by_partition in outcome.shown.items():
        for partition, shown in by_partition.items():
            there = list(outcome.topics[topic][partition])
            if list(shown) != there:
                differ = next((s, t) for s, t in zip([*shown, None], [*there, None], strict=False) if s != t)
                wrong.append(f"{topic}, partition {partition}: shown was {differ[0]}, there is {differ[1]}")
    return wrong


def surprises(outcome: Outcome) -> list[str]:
    """Nothing happened that must not happen whatever is killed."""
    return list(outcome.surprises)


CHECKS: Final[tuple[Callable[[Outcome], list[str]], ...]] = (lost, duplicated, reordered, phantoms, surprises)


def all_wrong(outcome: Outcome) -> dict[str, list[str]]:
    """Give what each check found, by what it says; only those that found something."""
    found = {(check.__doc__ or ""): check(outcome) for check in CHECKS}
    return {what: wrong for what, wrong in found.items() if wrong}


def _targets(outcome: Outcome) -> list[tuple[str, int, list[Mark], list[Mark]]]:
    source, *targets = outcome.topics
    return [
        (topic, p, [mark for _, mark in outcome.topics[source][p]], [mark for _, mark in log])
        for topic in targets
        for p, log in outcome.topics[topic].items()
    ]
