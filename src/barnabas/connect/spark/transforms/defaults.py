"""Defaults of schemas, which are values of the plan and not of records, and follow a change of type."""

from __future__ import annotations

import json
import struct

from barnabas.connect.spark.data.schema import FLOATS, INTEGERS, Schema, Type
from barnabas.model.java_number import java_double

_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def cast_default(schema: Schema, target: Type) -> str | None:
    """Give the default, as JSON, after a cast; None if there is none, or it is of a logical type."""
    if schema.default is None or schema.logical is not None or not schema.type.primitive:
        return None
    value = json.loads(schema.default)
    if target is Type.STRING:
        return json.dumps(_text(schema, value))
    if target is Type.BOOLEAN:
        return json.dumps(value.lower() == "true" if isinstance(value, str) else int(value) != 0)
    number = float(value) if isinstance(value, str) or target in FLOATS else value
    if target in INTEGERS:
        bits = _BITS[target]
        wrapped = int(value if not isinstance(value, float) else number) & ((1 << bits) - 1)
        return json.dumps(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    if target is Type.FLOAT32:
        number = struct.unpack("f", struct.pack("f", number))[0]
    return json.dumps(number)


def _text(schema: Schema, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return java_double(float(str(value))) if schema.type in FLOATS else str(value)
