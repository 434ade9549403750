"""What a text says that stands for a value: SimpleHeaderConverter's guess, `Values.parseString`."""

from __future__ import annotations

import json
import re
from typing import Final

from barnabas.connect.spark.data.sql import literal
from barnabas.model.java_number import java_double

WHOLE: Final = re.compile(r"[+-]?[0-9]+")
REAL: Final = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")


def header_literal(text: str) -> tuple[str, str]:
    """Give the text that goes on the wire for a literal, and SQL of it as a VARIANT."""
    if WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return str(int(text)), f"cast(cast('{int(text)}' as bigint) as variant)"
    if REAL.fullmatch(text):
        shown = java_double(float(text))
        return shown, f"cast(cast('{float(text)!r}' as double) as variant)"
    if text in ("true", "false"):
        return text, f"cast({text} as variant)"
    if text[:1] in ("[", "{"):
        try:
            json.loads(text)
        except ValueError:
            return text, f"cast({literal(text)} as variant)"
        return text, f"parse_json({literal(text)})"
    return text, f"cast({literal(text)} as variant)"
