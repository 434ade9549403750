"""Explanations held against Apache Kafka's StandardAuthorizer: its answers, and its answers after what we propose."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.core.authorizer.explain import Change, Explanation, Question, explain
from barnabas.core.authorizer.explain_any import AnyChange, AnyQuestion, explain_any
from barnabas.model.uuid import Uuid

from .cases import Case, random_case, random_question
from .cases import Question as CaseQuestion
from .test_standard_peer import ask, questions_of

CASES, QUESTIONS = 120, 25
NEW_ID = Uuid(b"a new rule's id.")


def changed(case: Case, change: Change | AnyChange) -> Case:
    gone = {acl_id for acl_id, _ in change.removed}
    acls = {acl_id: one for acl_id, one in case.acls.items() if acl_id not in gone}
    if change.added is not None:
        acls[NEW_ID] = change.added
    return Case(case.super_users - {change.demoted or ""}, case.allow_everyone, acls)


def lines_of(case: Case, question: CaseQuestion, told: Explanation) -> Iterator[str]:
    """Ask what was explained, and the same again after each change that was proposed."""
    for one in (case, *(changed(case, change) for change in told.changes)):
        yield from (line for line in questions_of([(one, [question])]) if not line.startswith("ANY"))


@pytest.mark.peer
@pytest.mark.requirement("A-01", "A-05", "A-06", "A-07")
def test_kafka_decides_as_explained_and_otherwise_after_every_proposed_change(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    lines: list[str] = []
    expected: list[tuple[bool, str]] = []
    for _ in range(CASES):
        case = random_case(rng, rng.choice((0, 3, 10, 40)))
        authorizer = case.authorizer()
        for question in {random_question(rng) for _ in range(QUESTIONS)}:
            told = explain(authorizer, Question(*question))
            lines += lines_of(case, question, told)
            about = f"seed {seed}: {told.question}"
            expected += [(told.allowed, about), *((not told.allowed, f"{about} {change}") for change in told.changes)]
    theirs = ask(lines, tmp_path)
    assert len(theirs) == len(expected) > 2 * CASES
    different = [
        about
        for answer, (allowed, about) in zip(theirs, expected, strict=True)
        if answer.startswith("ALLOWED") is not allowed
    ]
    assert not different, f"{len(different)} answers differ, the first: {different[0]}"


@pytest.mark.peer
@pytest.mark.requirement("A-01")
def test_kafka_decides_on_whole_types_as_explained_and_otherwise_after_every_change(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    lines: list[str] = []
    expected: list[tuple[bool, str]] = []
    for _ in range(CASES):
        case = random_case(rng, rng.choice((0, 3, 10, 40)))
        authorizer = case.authorizer()
        for asked in {random_question(rng) for _ in range(QUESTIONS)}:
            told = explain_any(authorizer, AnyQuestion(*asked[:-1]))
            for one in (case, *(changed(case, change) for change in told.changes)):
                lines += (line for line in questions_of([(one, [asked])]) if not line.startswith("ASK"))
            about = f"seed {seed}: {told.question}"
            expected += [(told.allowed, about), *((not told.allowed, f"{about} {change}") for change in told.changes)]
    theirs = ask(lines, tmp_path)
    assert len(theirs) == len(expected) > 2 * CASES
    different = [
        about for answer, (allowed, about) in zip(theirs, expected, strict=True) if (answer == "ALLOWED") is not allowed
    ]
    assert not different, f"{len(different)} answers differ, the first: {different[0]}"
