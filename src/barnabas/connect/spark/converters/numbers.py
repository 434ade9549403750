"""BooleanConverter and the converters of numbers: big-endian bytes of one size."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Final

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import OPTIONAL_BYTES, Schema, Type
from barnabas.connect.spark.data.sql import let, literal, name

from .base import Converted, Converter

_PACKAGE: Final = "org.apache.kafka.connect.converters."
_SIGN: Final = "(-9223372036854775807L - 1L)"


class OfOneSize(Converter):
    """What the converters of a primitive type have in common."""

    TYPE: ClassVar[Type]
    SIZE: ClassVar[int]

    def decoded(self, records: Records, column: str) -> Converted:
        """Give the value; other bytes than such a value's fail."""
        sql = name(column)
        return Converted(self.value_of(sql), Schema(self.TYPE, optional=True), self.problem_of(sql))

    def encoded(self, schema: Schema | None, column: str) -> Converted:
        """Give the bytes; values of another type fail."""
        sql = name(column)
        refused = literal(f"{self.called} takes {self.TYPE.name}, and the {column} is {_kind(schema)}")
        if schema is None:
            sql = self._of_variant(sql)
            problem = f"CASE WHEN {name(column)} IS NOT NULL AND {sql} IS NULL THEN {refused} END"
            return Converted(self.bytes_of(sql), OPTIONAL_BYTES, problem)
        if not self.takes(schema):
            problem = f"CASE WHEN {sql} IS NOT NULL THEN {refused} END"
            return Converted("cast(NULL as binary)", OPTIONAL_BYTES, problem)
        return Converted(self.bytes_of(sql), OPTIONAL_BYTES)

    def takes(self, schema: Schema) -> bool:
        """Say whether values of a schema are of its type."""
        return schema.type is self.TYPE and schema.logical is None

    @property
    def called(self) -> str:
        """Give its name as messages have it."""
        return self.CLASS_NAME.rpartition(".")[2]

    def _of_variant(self, sql: str) -> str:
        # Numbers without a schema are INT64 or FLOAT64.
        kinds = {Type.INT64: "bigint", Type.FLOAT64: "double", Type.BOOLEAN: "boolean"}
        wanted = {Type.INT64: "BIGINT", Type.FLOAT64: "D", Type.BOOLEAN: "BOOLEAN"}
        kind = kinds.get(self.TYPE)
        if kind is None:
            return "NULL"
        test = f"schema_of_variant({sql}) LIKE '{wanted[self.TYPE]}%'"
        return f"CASE WHEN {test} THEN try_variant_get({sql}, '$', '{kind}') END"

    def value_of(self, sql: str) -> str:
        """Give the SQL of the value of bytes, null for other bytes than such a value's."""
        return f"CASE WHEN length({sql}) = {self.SIZE} THEN {self._value(sql)} END"

    def problem_of(self, sql: str) -> str:
        """Give the SQL of what is wrong with bytes, null where nothing is."""
        refused = literal(f"Size of data received by {self.called} is not {self.SIZE}")
        return f"CASE WHEN {sql} IS NOT NULL AND NOT length({sql}) = {self.SIZE} THEN {refused} END"

    @abstractmethod
    def _value(self, sql: str) -> str:
        """Give the value of bytes of the right size."""

    @abstractmethod
    def bytes_of(self, sql: str) -> str:
        """Give the SQL of the bytes of a value, null for null."""


def _kind(schema: Schema | None) -> str:
    return "without a schema" if schema is None else schema.name or schema.type.name


class BooleanConverter(OfOneSize):
    """One byte, 0 or 1."""

    CLASS_NAME = _PACKAGE + "BooleanConverter"
    TYPE = Type.BOOLEAN
    SIZE = 1

    def problem_of(self, sql: str) -> str:
        """Give the SQL of what is wrong with bytes, null where nothing is."""
        return f"CASE WHEN {sql} NOT IN (X'00', X'01') THEN 'a boolean is one byte, 0 or 1' END"

    def _value(self, sql: str) -> str:
        return f"CASE {sql} WHEN X'00' THEN false WHEN X'01' THEN true END"

    def bytes_of(self, sql: str) -> str:
        """Give the SQL of the bytes of a value, null for null."""
        return f"CASE WHEN {sql} THEN X'01' WHEN NOT {sql} THEN X'00' END"


class _Whole(OfOneSize):
    SQL: ClassVar[str]

    def _value(self, sql: str) -> str:
        spare = 64 - 8 * self.SIZE
        unsigned = f"cast(conv(hex({sql}), 16, -10) as bigint)"
        return f"cast(shiftright(shiftleft({unsigned}, {spare}), {spare}) as {self.SQL})" if spare else unsigned

    def bytes_of(self, sql: str) -> str:
        """Give the SQL of the bytes of a value, null for null."""
        return f"unhex(right(lpad(hex(cast({sql} as bigint)), 16, '0'), {2 * self.SIZE}))"


class ShortConverter(_Whole):
    """An INT16."""

    CLASS_NAME = _PACKAGE + "ShortConverter"
    TYPE = Type.INT16
    SIZE = 2
    SQL = "smallint"


class IntegerConverter(_Whole):
    """An INT32."""

    CLASS_NAME = _PACKAGE + "IntegerConverter"
    TYPE = Type.INT32
    SIZE = 4
    SQL = "int"


class LongConverter(_Whole):
    """An INT64."""

    CLASS_NAME = _PACKAGE + "LongConverter"
    TYPE = Type.INT64
    SIZE = 8
    SQL = "bigint"


class _Real(OfOneSize):
    """Numbers of IEEE 754, put together from their bits and taken apart by arithmetic that is exact."""

    MANTISSA: ClassVar[int]
    BIAS: ClassVar[int]
    SQL: ClassVar[str]

    def _value(self, sql: str) -> str:
        return let(f"cast(conv(hex({sql}), 16, -10) as bigint)", self._of_bits)

    def _of_bits(self, bits: str) -> str:
        ones = 2 * self.BIAS + 1
        exponent = f"(shiftrightunsigned({bits}, {self.MANTISSA}) & {ones}L)"
        fraction = f"({bits} & {(1 << self.MANTISSA) - 1}L)"
        sign = f"CASE WHEN ({bits} & shiftleft(1L, {8 * self.SIZE - 1})) <> 0 THEN -1D ELSE 1D END"
        least = self.BIAS - 1 + self.MANTISSA
        whole = f"({fraction} + {1 << self.MANTISSA}L)"
        size = (
            f"CASE WHEN {exponent} = {ones} AND {fraction} = 0 THEN double('Infinity') "
            f"WHEN {exponent} = {ones} THEN double('NaN') "
            f"WHEN {exponent} = 0 THEN {fraction} * pow(2D, {-least}) "
            f"ELSE {whole} * pow(2D, {exponent} - {self.BIAS + self.MANTISSA}) END"
        )
        return f"cast(({sign}) * ({size}) as {self.SQL})"

    def bytes_of(self, sql: str) -> str:
        """Give the SQL of the bytes of a value, null for null."""
        return let(f"cast({sql} as double)", lambda x: let(f"floor(log2(abs({x})))", lambda e: self._from(x, e)))

    def _from(self, value: str, guess: str) -> str:
        # A logarithm may be off by one where a power of two is near.
        scaled = f"(abs({value}) / pow(2D, {guess}))"
        off = f"(CASE WHEN {scaled} >= 2 THEN 1 WHEN {scaled} < 1 THEN -1 ELSE 0 END)"
        exponent = f"({guess} + {off})"
        fraction = f"cast((abs({value}) / pow(2D, {exponent}) - 1) * {1 << self.MANTISSA}D as bigint)"
        least = self.BIAS - 1 + self.MANTISSA
        # Twice, for the power itself may be beyond a double.
        small = f"abs({value}) * pow(2D, {least // 2}) * pow(2D, {least - least // 2})"
        infinite = (2 * self.BIAS + 1) << self.MANTISSA
        size = (
            f"CASE WHEN isnan({value}) THEN {infinite + (1 << (self.MANTISSA - 1))}L "
            f"WHEN abs({value}) = double('Infinity') THEN {infinite}L WHEN {value} = 0 THEN 0L "
            f"WHEN {exponent} < {1 - self.BIAS} THEN cast({small} as bigint) "
            f"ELSE shiftleft({exponent} + {self.BIAS}L, {self.MANTISSA}) + {fraction} END"
        )
        sign = _SIGN if self.SIZE == 8 else f"{1 << 31}L"
        bits = f"({size}) | CASE WHEN cast({value} as string) LIKE '-%' THEN {sign} ELSE 0L END"
        return f"CASE WHEN {value} IS NOT NULL THEN unhex(right(lpad(hex({bits}), 16, '0'), {2 * self.SIZE})) END"


class FloatConverter(_Real):
    """A FLOAT32."""

    CLASS_NAME = _PACKAGE + "FloatConverter"
    TYPE = Type.FLOAT32
    SIZE = 4
    SQL = "float"
    MANTISSA = 23
    BIAS = 127


class DoubleConverter(_Real):
    """A FLOAT64."""

    CLASS_NAME = _PACKAGE + "DoubleConverter"
    TYPE = Type.FLOAT64
    SIZE = 8
    SQL = "double"
    MANTISSA = 52
    BIAS = 1023


NUMBERS: Final[tuple[type[Converter], ...]] = (
    BooleanConverter, ShortConverter, IntegerConverter, LongConverter, FloatConverter, DoubleConverter,
)  # fmt: skip
