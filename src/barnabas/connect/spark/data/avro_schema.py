"""Avro's schemas as Connect's, as Arrow's types, and in a form whose values have one shape for each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from barnabas.connect.connector import ConnectError

from .schema import DATE, DECIMAL, PRECISION, SCALE, TIME, Field, Schema, Type, struct, timestamp
from .spark_types import MAX_PRECISION

Change = Callable[[Any], Any]


class BadAvroSchemaError(ConnectError):
    """An Avro schema that no column can have; the message says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What values of an Avro schema are like.

    wire: a schema of the same bytes, whose only logical types are decimals, and whose unions have a record around each
    branch, so that a value tells its branch. arrow: of the column; plain: the same with times as numbers.
    incoming, outgoing: from a value of `wire` to what Arrow takes, and back from `plain`; None where nothing changes.
    """

    schema: Schema
    wire: Any
    arrow: pa.DataType
    plain: pa.DataType
    incoming: Change | None = None
    outgoing: Change | None = None

    def taken(self, value: Any) -> Any:
        """Give a value that was read, as Arrow takes it."""
        return value if value is None or self.incoming is None else self.incoming(value)

    def given(self, value: Any, at: str = "the value") -> Any:
        """Give a value to write; ValueError for a null where the schema has none."""
        if value is None:
            if self.schema.optional:
                return None
            raise ValueError(f"{at} is null, and its schema has no null")
        return value if self.outgoing is None else self.outgoing(value)


_PRIMITIVES: Final[Mapping[str, tuple[Type, pa.DataType]]] = {
    "boolean": (Type.BOOLEAN, pa.bool_()),
    "int": (Type.INT32, pa.int32()),
    "long": (Type.INT64, pa.int64()),
    "float": (Type.FLOAT32, pa.float32()),
    "double": (Type.FLOAT64, pa.float64()),
    "bytes": (Type.BYTES, pa.binary()),
    "string": (Type.STRING, pa.string()),
}
_INSTANT: Final = pa.timestamp("us", "UTC")


def shape_of(parsed: Any) -> Shape:
    """Give the shape of a schema that fastavro has parsed; BadAvroSchemaError if no column can hold its values."""
    return _Walk().of(parsed)


@dataclass(slots=True)
class _Walk:
    """known: the shapes of the named types so far, None for those whose definition is not over."""

    known: dict[str, Shape | None] = field(default_factory=dict)
    branches: int = 0

    def of(self, avro: Any) -> Shape:
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            return self._named(avro) if avro not in _PRIMITIVES else _primitive({"type": avro})
        kind = avro["type"]
        match kind:
            case "record" | "error":
                return self._defined(avro, self._record)
            case "enum" | "fixed":
                return self._defined(avro, _leaf)
            case "array":
                return self._array(avro)
            case "map":
                return self._map(avro)
        return _primitive(avro) if kind in _PRIMITIVES else self.of(kind)

    def _named(self, avro: str) -> Shape:
        shape = self.known.get(avro)
        if shape is not None:
            return replace(shape, wire=avro)
        if avro in self.known:
            raise BadAvroSchemaError(f"{avro} holds itself, and no column of Spark's can")
        raise BadAvroSchemaError(f"{avro} is no type that has values")

    def _defined(self, avro: Mapping[str, Any], made: Callable[[Mapping[str, Any]], Shape]) -> Shape:
        self.known[avro["name"]] = None
        shape = self.known[avro["name"]] = made(avro)
        return shape

    def _record(self, avro: Mapping[str, Any]) -> Shape:
        shapes = {each["name"]: self.of(each["type"]) for each in avro["fields"]}
        defaults = {
            each["name"]: _default(shapes[each["name"]], each["default"])
            for each in avro["fields"]
            if each.get("default") is not None
        }
        if not shapes:
            raise BadAvroSchemaError(f"{avro['name']} has no fields")

        def outgoing(value: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: defaults[name]
                if name in defaults and value[name] is None and not shape.schema.optional
                else shape.given(value[name], name)
                for name, shape in shapes.items()
            }

        changed = [name for name, shape in shapes.items() if shape.incoming is not None]

        def incoming(value: dict[str, Any]) -> dict[str, Any]:
            return value | {name: shapes[name].taken(value[name]) for name in changed}

        fields = tuple(Field(name, shape.schema) for name, shape in shapes.items())
        wire = {"type": "record", "name": avro["name"]}
        return Shape(
            Schema(Type.STRUCT, name=avro["name"], doc=avro.get("doc"), fields=fields),
            wire | {"fields": [{"name": name, "type": shape.wire} for name, shape in shapes.items()]},
            pa.struct([(name, shape.arrow) for name, shape in shapes.items()]),
            pa.struct([(name, shape.plain) for name, shape in shapes.items()]),
            incoming if changed else None,
            outgoing,
        )

    def _array(self, avro: Mapping[str, Any]) -> Shape:
        inner = self.of(avro["items"])
        return Shape(
            Schema(Type.ARRAY, value=inner.schema),
            {"type": "array", "items": inner.wire},
            pa.list_(inner.arrow),
            pa.list_(inner.plain),
            None if inner.incoming is None else lambda value: [inner.taken(each) for each in value],
            lambda value: [inner.given(each, "an item of an array") for each in value],
        )

    def _map(self, avro: Mapping[str, Any]) -> Shape:
        inner = self.of(avro["values"])
        return Shape(
            Schema(Type.MAP, key=Schema(Type.STRING), value=inner.schema),
            {"type": "map", "values": inner.wire},
            pa.map_(pa.string(), inner.arrow),
            pa.map_(pa.string(), inner.plain),
            lambda value: [(key, inner.taken(each)) for key, each in value.items()],
            lambda value: {key: inner.given(each, f"the value of {key} in a map") for key, each in value},
        )

    def _union(self, avro: Sequence[Any]) -> Shape:
        shapes = [(each, self.of(each)) for each in avro if not _is_null(each)]
        optional = len(shapes) < len(avro)
        if not shapes:
            raise BadAvroSchemaError("a union of nothing but null has no values")
        if len(shapes) == 1:
            shape = shapes[0][1]
            wire = ["null" if _is_null(each) else shape.wire for each in avro]
            return replace(shape, schema=shape.schema.as_optional(optional), wire=wire)
        names = [_branch_name(each) for each, _ in shapes]
        if len({name.lower() for name in names}) < len(names):
            raise BadAvroSchemaError(f"a union has two branches of one name: {', '.join(names)}")
        branches = {name: shape for name, (_, shape) in zip(names, shapes, strict=True)}
        return self._branched(avro, branches, optional)

    def _branched(self, avro: Sequence[Any], branches: Mapping[str, Shape], optional: bool) -> Shape:
        records: dict[str, dict[str, Any]] = {}
        for name, shape in branches.items():
            self.branches += 1
            fields = [{"name": name, "type": shape.wire}]
            records[name] = {"type": "record", "name": f"barnabas.branch{self.branches}", "fields": fields}

        def incoming(value: Mapping[str, Any]) -> dict[str, Any]:
            return {name: branches[name].taken(each) for name, each in value.items()}

        def outgoing(value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
            chosen = [name for name, each in value.items() if each is not None]
            if len(chosen) != 1:
                raise ValueError(f"a union has values for {len(chosen)} of its branches, want one")
            name = chosen[0]
            return records[name]["name"], {name: branches[name].given(value[name])}

        made = iter(records.values())
        return Shape(
            struct(*((name, shape.schema.as_optional()) for name, shape in branches.items()), optional=optional),
            ["null" if _is_null(each) else next(made) for each in avro],
            pa.struct([(name, shape.arrow) for name, shape in branches.items()]),
            pa.struct([(name, shape.plain) for name, shape in branches.items()]),
            incoming,
            outgoing,
        )


def _is_null(avro: Any) -> bool:
    return avro == "null" or (isinstance(avro, dict) and avro["type"] == "null")


def _branch_name(avro: Any) -> str:
    named = avro if isinstance(avro, str) else avro.get("name", avro["type"])
    return str(named).rpartition(".")[2]


def _leaf(avro: Mapping[str, Any]) -> Shape:
    if avro["type"] == "enum":
        wire = {"type": "enum", "name": avro["name"], "symbols": avro["symbols"]}
        return Shape(Schema(Type.STRING, doc=avro.get("doc")), wire, pa.string(), pa.string())
    wire = {"type": "fixed", "name": avro["name"], "size": avro["size"]}
    if avro.get("logicalType") == "decimal":
        return _decimal(avro, wire)
    return Shape(Schema(Type.BYTES), wire, pa.binary(), pa.binary())


def _primitive(avro: Mapping[str, Any]) -> Shape:
    kind = avro["type"]
    type_, arrow = _PRIMITIVES[kind]
    plain = Shape(Schema(type_), kind, arrow, arrow)
    match kind, avro.get("logicalType"):
        case "bytes", "decimal":
            return _decimal(avro, {"type": "bytes"})
        case "int", "date":
            return replace(plain, schema=Schema(Type.INT32, name=DATE, version=1), arrow=pa.date32())
        case "int", "time-millis":
            return replace(plain, schema=Schema(Type.INT32, name=TIME, version=1))
        case "long", "timestamp-micros" | "local-timestamp-micros":
            return replace(plain, schema=timestamp(), arrow=_INSTANT)
        case "long", "timestamp-millis" | "local-timestamp-millis":
            return Shape(timestamp(), kind, _INSTANT, arrow, lambda ms: ms * 1000, lambda us: us // 1000)
    return plain


def _decimal(avro: Mapping[str, Any], wire: Mapping[str, Any]) -> Shape:
    precision, scale = avro["precision"], avro.get("scale", 0)
    if precision > MAX_PRECISION:
        raise BadAvroSchemaError(f"a decimal has {precision} digits; Spark's have {MAX_PRECISION}")
    parameters = ((PRECISION, str(precision)), (SCALE, str(scale)))
    return Shape(
        Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters),
        {**wire, "logicalType": "decimal", "precision": precision, "scale": scale},
        pa.decimal128(precision, scale),
        pa.decimal128(MAX_PRECISION, scale),
    )


def _default(shape: Shape, given: Any) -> Any:
    """Give a field's default as it is written; of a union it is one of the first branch."""
    if isinstance(shape.wire, list) and isinstance(shape.wire[0], dict) and len(shape.schema.fields) > 1:
        first = shape.wire[0]
        return first["name"], {first["fields"][0]["name"]: given}
    return given.encode("latin-1") if shape.schema.type is Type.BYTES and isinstance(given, str) else given
