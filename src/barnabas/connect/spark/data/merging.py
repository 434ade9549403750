"""One schema for values of several: what a column needs that holds them all."""

from __future__ import annotations

from dataclasses import replace

from .schema import FLOATS, INTEGERS, Field, Schema, Type


class IncompatibleSchemasError(Exception):
    """Two schemas that no column can have both; the message says where they part."""


def merge(one: Schema, other: Schema, at: str = "") -> Schema:
    """Give a schema that takes the values of both; IncompatibleSchemasError when there is none.

    A field that one of them lacks becomes optional; of two widths of numbers the wider is taken; what `one` says of
    name, version, documentation and default stands.
    """
    if one == other:
        return one
    if one.logical != other.logical or (one.logical is not None and one.parameters != other.parameters):
        raise IncompatibleSchemasError(f"{_named(one)} and {_named(other)}{at}")
    kind = _wider(one.type, other.type)
    if kind is None:
        raise IncompatibleSchemasError(f"{_named(one)} and {_named(other)}{at}")
    merged = replace(one, type=kind, optional=one.optional or other.optional)
    match kind:
        case Type.STRUCT:
            return replace(merged, fields=_merged_fields(one, other, at))
        case Type.ARRAY:
            return replace(merged, value=_merged_inner(one.value, other.value, at))
        case Type.MAP:
            key = _merged_inner(one.key, other.key, at)
            return replace(merged, key=key, value=_merged_inner(one.value, other.value, at))
    return merged


def _wider(one: Type, other: Type) -> Type | None:
    if one is other:
        return one
    for widths in (INTEGERS, FLOATS):
        if one in widths and other in widths:
            return max(one, other, key=widths.index)
    return None


def _merged_fields(one: Schema, other: Schema, at: str) -> tuple[Field, ...]:
    fields = []
    for field in one.fields:
        theirs = other.field(field.name)
        schema = field.schema
        merged = schema.as_optional() if theirs is None else merge(schema, theirs, f"{at or ' at '}{field.name}.")
        fields.append(Field(field.name, merged))
    ours = {field.name for field in one.fields}
    fields += [Field(f.name, f.schema.as_optional()) for f in other.fields if f.name not in ours]
    return tuple(fields)


def _merged_inner(one: Schema | None, other: Schema | None, at: str) -> Schema | None:
    return one if one is None or other is None else merge(one, other, at)


def _named(schema: Schema) -> str:
    return schema.name or schema.type.name
