"""JSON as a Connect worker's internal converter writes and reads it: `JsonConverter` without schemas.

Offsets are looked up by the bytes of their key, so these must be the JVM's to the last one: no blanks, text as UTF-8,
Java's spelling of doubles, of control characters and of emoji. The order of a map is the caller's.
"""

from __future__ import annotations

import json
import re
from typing import Final

from barnabas.model.java_number import java_double

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]|[^\x00-\uffff]')


def encode_json(value: Json) -> bytes:
    """Give the bytes of a value; ValueError for NaN, infinities and halves of surrogate pairs."""
    return _text(value).encode()


def decode_json(data: bytes) -> Json:
    """Give the value of some bytes; ValueError when they are no JSON."""
    value: Json = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    return value


def _text(value: Json) -> str:
    match value:
        case str():
            return f'"{_ESCAPED.sub(_escape, value)}"'
        case dict():
            return "{" + ",".join(f"{_text(k)}:{_text(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_text, value)) + "]"
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise ValueError(f"{value} is no JSON")
            return java_double(value)
        case _:
            return json.dumps(value)


def _escape(match: re.Match[str]) -> str:
    """Give Jackson's escape: in capitals, and two of them for what is beyond the first plane of Unicode."""
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    units = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is no JSON")
