"""A message as the JSON that Kafka's generated converters make of it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from barnabas.model.uuid import Uuid
from barnabas.wire.declaration import FieldSpec, Struct, field_specs


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """Give the fields that stand in this version, by Kafka's names; tagged ones only when they were set."""
    out: dict[str, Any] = {}
    for spec in field_specs(type(message)):
        if version not in spec.on.versions:
            continue
        value = getattr(message, spec.name)
        if version in spec.on.tagged and value == spec.fresh_default():
            continue
        out[camel(spec.name)] = _value(spec, value, version)
    return out


def camel(name: str) -> str:
    """Give snake_case as camelCase."""
    first, *rest = name.split("_")
    return ("kRaft" if first == "kraft" else first) + "".join(word.capitalize() for word in rest)


def _value(spec: FieldSpec, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_element(item, version) for item in value]
    return _element(value, version)


def _element(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return to_json(value, version)
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    return value
