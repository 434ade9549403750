"""Which topics a flag means: Kafka's include list, names or regular expressions separated by commas."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.cli.errors import CliError

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def matching(names: Iterable[str], include: str | None, *, exclude_internal: bool = False) -> list[str]:
    """Give the names that `include` matches, sorted; all of them without it."""
    kept = sorted(n for n in names if not (exclude_internal and n in INTERNAL))
    if include is None:
        return kept
    text = include.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise CliError(f"--topic {include!r} is not a regular expression: {e}.") from None
    return [n for n in kept if pattern.fullmatch(n)]
