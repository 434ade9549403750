"""Schemas as JSON, in the form that JsonConverter puts beside each payload."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from barnabas.connect.connector import ConnectError

from .schema import DECIMAL, SCALE, Field, Schema, Type


class BadSchemaError(ConnectError):
    """JSON that is no schema; the message says what is missing."""


def compact(value: object) -> str:
    """Give JSON without blanks, as Jackson writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def to_json_schema(schema: Schema, *, numeric_decimals: bool = False) -> dict[str, Any]:
    """Give the JSON of a schema, its keys in JsonConverter's order. numeric_decimals: how a default is written."""
    made: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        made["items"] = _inner(schema.value, numeric_decimals)
    elif schema.type is Type.MAP:
        made["keys"] = _inner(schema.key, numeric_decimals)
        made["values"] = _inner(schema.value, numeric_decimals)
    elif schema.type is Type.STRUCT:
        made["fields"] = [_inner(f.schema, numeric_decimals) | {"field": f.name} for f in schema.fields]
    made["optional"] = schema.optional
    for key in ("name", "version", "doc"):
        if getattr(schema, key) is not None:
            made[key] = getattr(schema, key)
    if schema.parameters:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        default = json.loads(schema.default)
        made["default"] = _decimal(schema, default, numeric_decimals) if schema.logical == DECIMAL else default
    return made


def from_json_schema(given: Any) -> Schema:
    """Give the schema of some JSON; BadSchemaError when it is none. Unknown keys mean nothing."""
    kind = given.get("type") if isinstance(given, Mapping) else None
    if not isinstance(kind, str):
        raise BadSchemaError("a schema has no 'type'")
    if kind not in set(Type):
        raise BadSchemaError(f"a schema has the unknown type {kind}")
    type_ = Type(kind)
    version = given.get("version")
    default = given.get("default")
    key, value = _held(given, type_)
    return Schema(
        type_,
        optional=given.get("optional") is True,
        name=_text(given, "name"),
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=_text(given, "doc"),
        parameters=_parameters(given.get("parameters")),
        default=None if default is None else json.dumps(default),
        fields=_fields(given) if type_ is Type.STRUCT else (),
        key=key,
        value=value,
    )


def _held(given: Mapping[str, Any], kind: Type) -> tuple[Schema | None, Schema | None]:
    if kind is Type.ARRAY:
        if given.get("items") is None:
            raise BadSchemaError("the schema of an array has no 'items'")
        return None, from_json_schema(given["items"])
    if kind is Type.MAP:
        for part in ("keys", "values"):
            if given.get(part) is None:
                raise BadSchemaError(f"the schema of a map has no '{part}'")
        return from_json_schema(given["keys"]), from_json_schema(given["values"])
    return None, None


def _fields(given: Mapping[str, Any]) -> tuple[Field, ...]:
    fields = given.get("fields")
    if not isinstance(fields, list):
        raise BadSchemaError("the 'fields' of a struct's schema are no array")
    made: dict[str, Field] = {}
    for field in fields:
        name = field.get("field") if isinstance(field, Mapping) else None
        if not isinstance(name, str):
            raise BadSchemaError("a field of a struct's schema has no 'field', its name")
        if name in made:
            raise BadSchemaError(f"a struct's schema has two fields {name}")
        made[name] = Field(name, from_json_schema(field))
    return tuple(made.values())


def _parameters(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping):
        return ()
    if not all(isinstance(text, str) for text in given.values()):
        raise BadSchemaError("the parameters of a schema must be texts")
    return tuple(given.items())


def _text(given: Mapping[str, Any], key: str) -> str | None:
    text = given.get(key)
    return text if isinstance(text, str) else None


def _inner(schema: Schema | None, numeric_decimals: bool) -> dict[str, Any]:
    if schema is None:
        raise BadSchemaError("an array or map does not say what it holds")
    return to_json_schema(schema, numeric_decimals=numeric_decimals)


def _decimal(schema: Schema, default: str | float, numeric: bool) -> str | float:
    scale = int(schema.parameter(SCALE) or 0)
    if isinstance(default, str):
        unscaled = int.from_bytes(base64.b64decode(default), "big", signed=True)
        return float(Decimal(unscaled).scaleb(-scale)) if numeric else default
    if numeric:
        return default
    unscaled = int(Decimal(str(default)).scaleb(scale))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
