"""Requests out of plain dicts, so that scripts stay short."""

from __future__ import annotations

from typing import Any

from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.declaration import Message, Struct, field_specs

__all__ = ["request"]


def request(name: str, /, **fields: Any) -> Message:
    """Give the request of that API (as Kafka names it) with these fields; dicts stand for structs."""
    row = next(row for row in API_KEYS.values() if row.name == name)
    made = _struct(row.request, fields)
    assert isinstance(made, Message)
    return made


def _struct(kind: type[Struct], fields: dict[str, Any]) -> Struct:
    specs = {spec.name: spec for spec in field_specs(kind)}
    return kind(**{name: _value(specs[name].struct, value) for name, value in fields.items()})


def _value(kind: type[Struct] | None, value: Any) -> Any:
    if kind is None or value is None:
        return value
    if isinstance(value, list):
        return [_value(kind, each) for each in value]
    return _struct(kind, value) if isinstance(value, dict) else value
