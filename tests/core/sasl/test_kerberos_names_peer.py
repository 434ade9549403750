"""Kerberos names and rules held against Kafka's own classes, on many random ones."""

from __future__ import annotations

import random
import subprocess
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from barnabas.core.sasl.kerberos_names import KerberosNameError, KerberosRuleError, ShortNamer
from tests.peers.maven import compiled, java, kafka_classpath

pytestmark = pytest.mark.peer
SOURCE: Final = Path(__file__).parents[2] / "peers" / "java" / "KerberosOracle.java"
COUNT: Final = 40_000
NAMES: Final = (
    "alice",
    "bob",
    "Alice",
    "a.b-c_d",
    "kafka",
    "host1.example.com",
    "",
    "*",
    "ß",
    "a b",
    "x$1",
    "a\\b",
    "é",
)
REALMS: Final = ("EXAMPLE.COM", "OTHER.ORG", "example.com", "", "X")
FORMATS: Final = (
    "$1", "$0", "$1@$0", "$1/$2@$0", "$2", "$1$2", "a$1b", "$1;$2", "$3", "$", "$$1", "$1$", "plain", "", "$10",
    "$99999999999",
)  # fmt: skip
# No word boundaries: which characters make words for it depends on the version of Java.
PIECES: Final = (
    "alice", "bob", ".*", ".", "a", "[a-z]+", "[^@/]*", "\\.", "@EXAMPLE.COM", "@", "$", "^", "\\w+", "\\d*",
    "[A-Z.]*", "(?<who>a.)", "\\p{Alpha}", "\\P{Lower}", "(a|b)", "(.)(.)", "x?", "b{2}", "b{1,}", "{", "}", "]",
    "\\Qa.b\\E", "+", "\\", "[", "[]a]", "[^]a]", "[a&&b]", "[\\w-]", "[a-c-e]", "[-a]", "[a-]", "(", "*?", "++",
    "\\s", "\\S+", "(?i)", "\\x41", "\\u0061", "\\h", "\\1", "\\k<who>", "é", "[.$^]", "|", "\\z", "\\Z", "\\D",
    "[\\D]", "[\\d.]", "\\/", "(?=a)", "(?!b)", "(?<=a)", "(?>a*)", "(?:b|c)", "{,2}", "a{1,2}?", "\\.com", "\\\\",
    "-", "&", "~", "#", " ",
)  # fmt: skip
REPLACEMENTS: Final = (
    "",
    "x",
    "$0",
    "$1",
    "$2",
    "$12",
    "${who}",
    "${no}",
    "\\$1",
    "\\",
    "$",
    "a-$1-b",
    "é",
    "@",
    "$0$0",
)


def pattern(chance: random.Random) -> str:
    return "".join(chance.choices(chance.choice((PIECES[:17], PIECES)), k=chance.choice((1, 1, 2, 3))))


def rule(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return chance.choice(("DEFAULT", "DEFAULT", "DEFAULTS", "", "RULE:", "RULE:[1:$1", "rule:[1:$1]"))
    components = chance.choice(("1", "2", chance.choice(("0", "3", "", "99999999999", "x"))))
    found = f"RULE:[{components}:{chance.choice(chance.choice((FORMATS[:2], FORMATS)))}]"
    if chance.random() < 0.4:
        found += f"({chance.choice((pattern(chance), '.*', '.*@EXAMPLE.COM', 'alice'))})"
    if chance.random() < 0.6:
        found += f"s/{pattern(chance)}/{chance.choice(REPLACEMENTS)}/{chance.choice(('', 'g'))}"
    return found + chance.choice(("", "", "/L", "/U", "L", "/", "g", "/X"))


def name(chance: random.Random) -> str:
    parts = [chance.choice(NAMES) for _ in range(chance.choice((1, 1, 1, 2, 2, 3)))]
    realm = "" if chance.random() < 0.1 else f"@{chance.choice(REALMS)}"
    ends = chance.choice(("", "", "", "", "", "", "\n", "\r\n", "\u2028", "@"))
    return "/".join(parts) + chance.choice(("", ends)) + realm + chance.choice(("", "", "", "", ends))


def ours(realm: str, rules: list[str], principal: str) -> str:
    try:
        namer = ShortNamer.parse(realm, rules)
    except KerberosRuleError as e:
        return "NOT FOLLOWED" if "not followed here" in str(e) else "RULES"
    try:
        return f"OK {namer.short_name(principal)}"
    except KerberosNameError:
        return "NAME"


def asked(questions: list[tuple[str, list[str], str]]) -> list[str]:
    classes = compiled(SOURCE)
    command = [java(), "-XX:TieredStopAtLevel=1", "-Xss16M", "-cp", f"{classes}:{kafka_classpath()}", "KerberosOracle"]
    lines = [
        "\t".join(b64encode(f.encode()).decode() for f in (realm, "\n".join(rules), who))
        for realm, rules, who in questions
    ]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=120, check=True)
    return [said(line) for line in done.stdout.splitlines()]


def said(answer: str) -> str:
    kind, _, user = answer.partition(" ")
    return f"OK {b64decode(user).decode()}" if kind == "OK" else kind


def test_rules_give_the_users_that_kafkas_give() -> None:
    chance = random.Random(20260704)
    questions = [
        (chance.choice(REALMS), [rule(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))], name(chance))
        for _ in range(COUNT)
    ]
    theirs = asked(questions)
    assert len(theirs) == COUNT
    kinds: Counter[str] = Counter()
    different = []
    for question, wanted in zip(questions, theirs, strict=True):
        found = ours(*question)
        kinds[f"{found.split(' ')[0]} {wanted.split(' ')[0]}"] += 1
        if found not in (wanted, "NOT FOLLOWED"):
            different.append((question, wanted, found))
    assert not different, f"{len(different)} differ (rules, Kafka, ours): {different[:5]}"
    assert kinds["OK OK"] > COUNT / 15, kinds
    assert kinds["NAME NAME"] > COUNT / 20, kinds
    assert kinds["NOT FOLLOWED OK"] + kinds["NOT FOLLOWED NAME"] < COUNT / 20, kinds
