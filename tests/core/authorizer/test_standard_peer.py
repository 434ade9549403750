"""The same questions to Apache Kafka's StandardAuthorizer and to ours: same answers, same audit lines."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from barnabas.core.authorizer.audit import AuditEntry, format_audit, level_of, parse_audit
from tests.peers.maven import java, kafka_classpath

from .cases import Case, Question, random_case, random_question

SOURCE = Path(__file__).parents[2] / "peers" / "java" / "AuthorizerOracle.java"
CASES, QUESTIONS = 250, 100


def questions_of(cases: list[tuple[Case, list[Question]]]) -> Iterator[str]:
    for case, questions in cases:
        yield f"NEW\t{';'.join(sorted(case.super_users))}\t{str(case.allow_everyone).lower()}"
        for acl in case.acls.values():
            kind, name, pattern = acl.pattern.resource_type.name, acl.pattern.name, acl.pattern.pattern_type.name
            rest = f"{acl.principal}\t{acl.host}\t{acl.operation.name}\t{acl.permission_type.name}"
            yield f"ADD\t{kind}\t{name}\t{pattern}\t{rest}"
        for q in questions:
            who = f"{q.principal.principal_type}\t{q.principal.name}\t{q.host}\t{q.operation.name}"
            yield f"ASK\t{who}\t{q.resource_type.name}\t{q.name}"
            yield f"ANY\t{who}\t{q.resource_type.name}"


def our_answers(cases: list[tuple[Case, list[Question]]]) -> Iterator[str]:
    words = {True: "ALLOWED", False: "DENIED"}
    for case, questions in cases:
        authorizer = case.authorizer()
        for q in questions:
            result = authorizer.authorize(*q)
            entry = AuditEntry(
                q.principal, result.allowed, q.operation, q.host, q.resource_type, q.name, "Fetch", 1, result.rule
            )
            line = format_audit(entry)
            assert parse_audit(line) == entry
            yield f"{words[result.allowed]}\t{level_of(result).upper()} {line}"
            yield words[authorizer.authorize_by_resource_type(*q[:-1])]


def ask(lines: Iterable[str], tmp_path: Path) -> list[str]:
    """Give Kafka's answers."""
    classpath = kafka_classpath()
    subprocess.run(["javac", "-cp", classpath, "-d", str(tmp_path), str(SOURCE)], check=True, timeout=120)
    asked = subprocess.run(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", f"{tmp_path}:{classpath}", "AuthorizerOracle"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr[-3000:]
    return asked.stdout.splitlines()


@pytest.mark.peer
@pytest.mark.requirement("A-01", "A-02", "A-03", "A-04", "A-05", "A-06", "A-07", "A-40")
def test_many_thousand_random_questions_get_kafkas_own_answers(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    cases = [
        (random_case(rng, rng.choice((0, 3, 10, 40, 150))), [random_question(rng) for _ in range(QUESTIONS)])
        for _ in range(CASES)
    ]
    theirs = ask(questions_of(cases), tmp_path)
    ours = list(our_answers(cases))
    assert len(theirs) == len(ours) == 2 * CASES * QUESTIONS
    different = [(a, b) for a, b in zip(theirs, ours, strict=True) if a != b]
    assert not different, f"seed {seed}: {len(different)} answers differ, the first: {different[0]}"


@pytest.mark.peer
def test_where_we_differ_on_purpose_kafka_still_lets_a_refused_user_in(tmp_path: Path) -> None:
    """A literal `*` covers every name for us; docs/decisions/authorizer.md says why. Falls when Kafka does the same."""
    lines = (
        "NEW\t\tfalse",
        "ADD\tGROUP\t*a\tLITERAL\tUser:alice\t*\tREAD\tALLOW",
        "ADD\tGROUP\t*\tLITERAL\tUser:*\t*\tALL\tDENY",
        "ASK\tUser\talice\t10.0.0.1\tREAD\tGROUP\t*a",
    )
    assert ask(lines, tmp_path)[0].startswith("ALLOWED")
