"""Spark SQL as text: how literals and names are written so that no input can leave its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

NULL: Final = "NULL"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_variables: Final = count()


def literal(text: str) -> str:
    """Give a string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def name(*parts: str) -> str:
    """Give the name of a column, or of a field in one."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def variable() -> str:
    """Give a name that no other lambda of this process has."""
    return f"x{next(_variables)}"


def let(sql: str, body: Callable[[str], str]) -> str:
    """Give the SQL of what `body` makes of a name for the value of `sql`, evaluated once."""
    if _NAME.fullmatch(sql):
        return body(sql)
    variable_ = variable()
    return f"transform(array({sql}), {variable_} -> {body(variable_)})[0]"


def first(expressions: Iterable[str | None]) -> str | None:
    """Give the first that is not null of some expressions; None when there is none at all."""
    given = [e for e in expressions if e is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else f"coalesce({', '.join(given)})"
