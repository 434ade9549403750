"""No secret is compared by `==` where logins are judged: it would tell by its time how much of a guess is right."""

from __future__ import annotations

import ast
import re
from hmac import compare_digest
from pathlib import Path

import pytest

import barnabas
from barnabas.core.sasl.mechanisms import plain

PACKAGE = Path(barnabas.__file__).parent
JUDGES = (
    *(PACKAGE / "core" / "sasl").rglob("*.py"),
    *(PACKAGE / "server" / "logins").rglob("*.py"),
    PACKAGE / "core" / "metadata" / "token_secrets.py",
    *(PACKAGE / "server" / "network").rglob("*.py"),
)
SECRET = re.compile(r"(?i)password|secret|hmac|proof|signature|stored_key|server_key|digest|salted|credential|jaas")


def compared(source: str) -> list[str]:
    """Give the comparisons for equality, or membership, of what is called like a secret."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            harmless = any(isinstance(side, ast.Constant) or _is_length(side) for side in (left, right))
            equality = isinstance(operator, ast.Eq | ast.NotEq)
            if equality and not harmless and any(SECRET.search(ast.unparse(side)) for side in (left, right)):
                found.append(ast.unparse(node))
    return found


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def test_the_search_finds_what_it_is_for() -> None:
    assert compared("if password == expected: pass") == ["password == expected"]
    assert compared("a = x.stored_key != f(y)") == ["x.stored_key != f(y)"]
    assert compared("len(proof) != len(signature) or secret is None or name == other") == []


def test_no_judge_of_logins_compares_a_secret_in_a_time_that_tells() -> None:
    assert len(JUDGES) > 20
    assert {path.name: found for path in JUDGES if (found := compared(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    ("user", "password", "same"), [("alice", "right", True), ("alice", "wrong", False), ("x", "y", False)]
)
def test_plain_compares_once_whoever_comes(
    monkeypatch: pytest.MonkeyPatch, user: str, password: str, same: bool
) -> None:
    compared_with: list[tuple[bytes, bytes]] = []

    def noted(a: bytes, b: bytes) -> bool:
        compared_with.append((a, b))
        return compare_digest(a, b)

    monkeypatch.setattr(plain, "compare_digest", noted)
    assert plain.verify_in({"alice": "right"})(user, password) is same
    assert [given for given, _ in compared_with] == [password.encode()]
