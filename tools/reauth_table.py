"""Runs every client of tests/clients_under_test through `barnabas reauth-check`, and writes docs/reauthentication.md.

python -m tools.reauth_table, or `make reauth`. Only the part between the markers is written.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Final

import structlog
from tests.clients_under_test.commands import CLIENTS

from barnabas.reauth.run import LIFETIME_MS, Check, Result, run_all
from barnabas.reauth.scenarios import SCENARIOS
from barnabas.reauth.verdict import Outcome

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reauthentication.md"
BEGIN: Final = "<!-- measured:begin -->"
END: Final = "<!-- measured:end -->"
AT_ONCE: Final = 4
_WORDS: Final = {
    Outcome.GOOD: "good",
    Outcome.GETS_BY: "gets by",
    Outcome.BAD: "**bad**",
    Outcome.UNKNOWN: "unknown",
}


def measured(name: str, command: str) -> list[Result]:
    """Give what the kit finds about a client."""
    with tempfile.TemporaryDirectory(prefix="reauth-table-") as folder:
        results = []
        for result in run_all(Check(command), SCENARIOS, Path(folder), AT_ONCE):
            print(f"{name}: {result.scenario.name}: {result.verdict.outcome}: {result.verdict.words}", flush=True)
            results.append(result)
        return results


def page_part(found: dict[str, list[Result]]) -> str:
    """Give the table and, below it, every verdict in its words; equal ones stand together."""
    titles = [one.title for one in SCENARIOS]
    lines = [f"| client | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    for name, results in found.items():
        lines.append(f"| {name} | {' | '.join(_WORDS[one.verdict.outcome] for one in results)} |")
    lines += ["", f"Sessions of {LIFETIME_MS / 1000:g} s, SCRAM-SHA-512, SASL_PLAINTEXT, one broker. In words:", ""]
    for name, results in found.items():
        lines.append(f"- **{name}**")
        said: dict[str, list[str]] = {}
        for one in results:
            said.setdefault(one.verdict.words, []).append(one.scenario.title)
        lines += [f"  - {', '.join(where)}: {words}." for words, where in said.items()]
    return "\n".join(lines)


def main() -> None:
    """Measure, and write."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    commands = {f"{name} {client.version()}": client.command() for name, client in CLIENTS.items()}
    found = {name: measured(name, command) for name, command in commands.items()}
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{page_part(found)}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
