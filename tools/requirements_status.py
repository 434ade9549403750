"""Write docs/status.md: each numbered requirement, and the tests that carry its mark."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "status.md"
ROW: Final = re.compile(r"^\| ([FACZRH]-\d+) \| (.*?) \|", re.MULTILINE)
SUBJECTS: Final = {
    "F": "Forwarding to the controller (KIP-590)",
    "A": "Authorizer in the metadata log (KIP-801)",
    "C": "Connect's internal REST (KIP-507)",
    "Z": "ZooKeeper authentication (KIP-38)",
    "R": "SASL re-authentication (KIP-368)",
    "H": "Lessons from users",
}


def marked_tests() -> dict[str, list[str]]:
    """Give the tests of each requirement, by its id, as path::name; `pytestmark` counts for a whole module."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        of_all = [i for node in module.body if _is_pytestmark(node) for i in _ids(ast.walk(node))]
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for requirement in dict.fromkeys([*of_all, *_ids(node.decorator_list)]):
                    found[requirement].append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets)


def _ids(marks: Iterable[ast.AST]) -> list[str]:
    ids = []
    for mark in marks:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
            ids += [a.value for a in mark.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return ids


def page() -> str:
    """Give the whole text."""
    rows = dict(ROW.findall((ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")))
    tests = marked_tests()
    unknown = sorted(set(tests) - set(rows))
    if unknown:
        raise SystemExit(f"tests name requirements that do not exist: {', '.join(unknown)}")
    proven = sum(1 for requirement in rows if requirement in tests)
    parts = [
        "# Status of the requirements\n\nWritten by `make requirements` from the marks on the tests: a row has a proof "
        f"when a test names it.\n\n{proven} of {len(rows)} rows have one.\n"
    ]
    for letter, subject in SUBJECTS.items():
        parts.append(f"\n## {letter}: {subject}\n\n| row | demand | tests |\n|---|---|---|\n")
        for requirement, text in rows.items():
            if requirement.startswith(letter + "-"):
                named = "<br>".join(f"`{t}`" for t in tests.get(requirement, [])) or "none yet"
                parts.append(f"| {requirement} | {text} | {named} |\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(page().splitlines()[4])
