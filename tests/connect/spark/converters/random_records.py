"""Schemas and values that fit them, made by chance from a seed."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.connect.spark.samples import Record, envelope, fields, logical

_LETTERS: Final = 'abc "\\/\u00e9\u4e2d\U0001f600\n\t0'
_LOGICAL: Final = {"Date": (-30000, 30000), "Time": (0, 86_400_000), "Timestamp": (-(10**13), 10**13)}
_KINDS: Final = ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes", "logical")


def _whole(bits: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.randrange(-(1 << (bits - 1)), 1 << (bits - 1))


def _float(rng: random.Random) -> float:
    value: float = struct.unpack("f", struct.pack("f", rng.uniform(-1e6, 1e6)))[0]
    return value


def _double(rng: random.Random) -> float:
    return rng.choice([rng.uniform(-1, 1), rng.uniform(-1e300, 1e300), float(rng.randrange(10**6))])


_PRIMITIVE: Final[Mapping[str, Callable[[random.Random], Any]]] = {
    **{f"int{bits}": _whole(bits) for bits in (8, 16, 32, 64)},
    "float": _float,
    "double": _double,
    "boolean": lambda rng: rng.random() < 0.5,
    "string": lambda rng: "".join(rng.choice(_LETTERS) for _ in range(rng.randrange(12))),
    "bytes": lambda rng: base64.b64encode(rng.randbytes(rng.randrange(20))).decode(),
}


def _decimal(rng: random.Random) -> str:
    number = rng.randrange(-(10 ** rng.randrange(1, 30)), 10 ** rng.randrange(1, 30))
    size = (number + (number < 0)).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def payload(schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Give a value of a schema, as JsonConverter writes it."""
    if schema.get("optional") and rng.random() < 0.2:
        return None
    name = schema.get("name", "").rpartition(".")[2]
    if name == "Decimal":
        return _decimal(rng)
    if name in _LOGICAL:
        return rng.randrange(*_LOGICAL[name])
    kind = schema["type"]
    if kind == "array":
        return [payload(schema["items"], rng) for _ in range(rng.randrange(4))]
    if kind == "map":
        pairs = {payload(schema["keys"], rng): payload(schema["values"], rng) for _ in range(3)}
        return pairs if schema["keys"]["type"] == "string" else [list(pair) for pair in pairs.items()]
    if kind == "struct":
        return {f["field"]: payload(f, rng) for f in schema["fields"]}
    return _PRIMITIVE[kind](rng)


def _schema(rng: random.Random, depth: int) -> dict[str, Any]:
    kind = rng.choice([*_KINDS, *(("array", "map", "struct") if depth else ())])
    optional = rng.random() < 0.6
    if kind == "logical":
        name, under = rng.choice([("Decimal", "bytes"), ("Date", "int32"), ("Time", "int32"), ("Timestamp", "int64")])
        scale = {"parameters": {"scale": str(rng.randrange(8))}} if name == "Decimal" else {}
        return logical(name, under, optional=optional, **scale)
    if kind == "array":
        return {"type": kind, "optional": optional, "items": _schema(rng, depth - 1)}
    if kind == "map":
        keys = {"type": rng.choice(["string", "int32"])}
        return {"type": kind, "optional": optional, "keys": keys, "values": _schema(rng, depth - 1)}
    if kind == "struct":
        return fields(*((f"f{i}", _schema(rng, depth - 1)) for i in range(rng.randrange(1, 4))), optional=optional)
    return {"type": kind, "optional": optional}


def random_records(seed: int, count: int = 15) -> list[Record]:
    """Give records of one schema, the same for the same seed."""
    rng = random.Random(seed)
    schema = fields(*((f"field {i}", _schema(rng, 2)) for i in range(4)), name=f"Random{seed}")
    return [Record(envelope(schema, payload(schema, rng))) for _ in range(count)]
