"""Columns of Avro's binary encoding, a record at a time, from and to Arrow's columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa

from .avro_schema import BadAvroSchemaError, Shape, shape_of

VALUE: Final = "v"
PROBLEM: Final = "p"
_BROKEN: Final = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, struct.error)


class AvroRecords:
    """Reads and writes values of one schema. schema: Avro's JSON as text; BadAvroSchemaError when it is none."""

    def __init__(self, schema: str) -> None:
        try:
            self.shape: Shape = shape_of(fastavro.parse_schema(_json(schema)))
            self._wire = fastavro.parse_schema(self.shape.wire)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, LookupError) as error:
            raise BadAvroSchemaError(f"no Avro schema: {error}") from error

    def read(self, column: pa.Array) -> pa.Array:
        """Give structs of a value and a problem for a column of bytes; of these at most one is not null."""
        values: list[Any] = []
        problems: list[str | None] = []
        for data in column.to_pylist():
            value, problem = _tried(self._read, data)
            values.append(value)
            problems.append(problem)
        return _structs(self._column(values, problems), problems)

    def write(self, column: pa.Array) -> pa.Array:
        """Give structs of bytes and a problem for a column of values."""
        made = [_tried(self._write, value) for value in column.cast(self.shape.plain).to_pylist()]
        return _structs(pa.array([data for data, _ in made], pa.binary()), [problem for _, problem in made])

    def _read(self, data: bytes) -> Any:
        stream = BytesIO(data)
        value = self.shape.taken(fastavro.schemaless_reader(stream, self._wire, None))
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
        return value

    def _write(self, value: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, self._wire, self.shape.given(value))
        return stream.getvalue()

    def _column(self, values: list[Any], problems: list[str | None]) -> pa.Array:
        try:
            return pa.array(values, self.shape.arrow)
        except (ValueError, TypeError, OverflowError):
            # Some value is beyond what its column holds: then each is tried by itself.
            for number, value in enumerate(values):
                _, problem = _tried(lambda each: pa.array([each], self.shape.arrow), value)
                if problem is not None:
                    values[number], problems[number] = None, problem
            return pa.array(values, self.shape.arrow)


@lru_cache(maxsize=32)
def avro_records(schema: str) -> AvroRecords:
    """Give what reads and writes a schema, made once in a process."""
    return AvroRecords(schema)


def _json(text: str) -> Any:
    # A schema may be the bare name of a primitive type.
    return json.loads(text) if text.lstrip()[:1] in ("{", "[", '"') else text.strip()


def _tried(work: Callable[[Any], Any], given: Any) -> tuple[Any, str | None]:
    if given is None:
        return None, None
    try:
        return work(given), None
    except _BROKEN as error:
        return None, f"the value does not go with its Avro schema: {str(error) or type(error).__name__}"


def _structs(values: pa.Array, problems: list[str | None]) -> pa.Array:
    return pa.StructArray.from_arrays([values, pa.array(problems, pa.string())], names=[VALUE, PROBLEM])
