"""A second codec, slow and obvious: walks the declaration field by field. The compiled one must agree with it."""

from __future__ import annotations

import struct
from typing import Any

from barnabas.wire.declaration import FieldSpec, Message, Struct, field_specs
from barnabas.wire.primitives import FORMATS, uvarint


def encode(msg: Message, version: int) -> bytes:
    """Give the bytes of a message that is known to be sayable in the version."""
    return _struct(msg, version, version >= msg.FLEXIBLE_FROM)


def _struct(msg: Struct, version: int, flexible: bool) -> bytes:
    here = [f for f in field_specs(type(msg)) if version in f.on.versions]
    out = b"".join(
        _value(f, getattr(msg, f.name), version, flexible and f.on.flexible) for f in here if version not in f.on.tagged
    )
    if not flexible:
        return out
    tagged = sorted((f for f in here if version in f.on.tagged), key=lambda f: f.on.tag)
    said = [f for f in tagged if getattr(msg, f.name) != f.fresh_default()]
    out += uvarint(len(said))
    for f in said:
        body = _value(f, getattr(msg, f.name), version, flexible)
        out += uvarint(f.on.tag) + uvarint(len(body)) + body
    return out


def _value(f: FieldSpec, value: Any, version: int, flexible: bool) -> bytes:
    if f.kind == "array":
        if value is None:
            return _length(None, flexible, 4)
        element = FieldSpec(f.name, "struct" if f.struct else f.element, f.on, "", f.struct)
        items = b"".join(_one(element, item, version, flexible, nullable=False) for item in value)
        return _length(len(value), flexible, 4) + items
    return _one(f, value, version, flexible, nullable=version in f.on.nullable)


def _one(f: FieldSpec, value: Any, version: int, flexible: bool, *, nullable: bool) -> bytes:
    if f.kind == "struct":
        if nullable:
            nothing = b"\0" if version in f.on.tagged else b"\xff"
            return nothing if value is None else b"\x01" + _struct(value, version, flexible)
        return _struct(value, version, flexible)
    if f.kind in FORMATS:
        return struct.pack(">" + FORMATS[f.kind], value)
    size = 2 if f.kind == "string" else 4
    if value is None:
        return _length(None, flexible, size)
    data = value.encode() if f.kind == "string" else bytes(value)
    return _length(len(data), flexible, size) + data


def _length(count: int | None, flexible: bool, size: int) -> bytes:
    if flexible:
        return uvarint(0 if count is None else count + 1)
    return (-1 if count is None else count).to_bytes(size, "big", signed=True)
