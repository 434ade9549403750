"""AvroConverter: Avro's binary encoding by a schema that the configuration has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import arrow_udf, expr  # type: ignore[attr-defined]

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.data.projecting import projected
from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import FLOATS, INTEGERS, OPTIONAL_BYTES, PRECISION, SCALE, Field, Schema
from barnabas.connect.spark.data.spark_types import ddl
from barnabas.connect.spark.data.sql import literal, name
from barnabas.model.config import ConfigError, ConfigKey, ConfigTable, ConfigType, Importance

from .base import CONVERTER_TYPE, Converted, Converter, Role

_MADE: Final = "connect_avro"
_CONFIG: Final = ConfigTable(
    CONVERTER_TYPE,
    ConfigKey(
        "schema", ConfigType.STRING, None,
        "The Avro schema of all values, as JSON. This, or schema.file.", Importance.HIGH,
    ),
    ConfigKey(
        "schema.file", ConfigType.STRING, None,
        "A file with the schema, on each worker.", Importance.HIGH,
    ),
)  # fmt: skip


class AvroConverter(Converter):
    """Avro without a container: the bytes of one value, nothing before and nothing after. Wants fastavro."""

    CLASS_NAME = "barnabas.connect.AvroConverter"
    CONFIG = _CONFIG

    def __init__(self, config: Mapping[str, str], role: Role) -> None:
        super().__init__(config, role)
        try:
            from barnabas.connect.spark.data.avro_records import AvroRecords
        except ModuleNotFoundError as error:
            raise ConfigError(f"AvroConverter needs another package ({error}): pip install 'barnabas[avro]'") from error
        self._text = _schema_text(self.config)
        try:
            self.shape = AvroRecords(self._text).shape
        except ConnectError as error:
            if self.config["schema.file"]:
                # What is in a file of the worker's is not for everyone who may try a configuration.
                raise ConfigError("schema.file: the file holds no Avro schema that a column can have") from None
            raise ConfigError(f"schema: {error}") from error
        self.schema = self.shape.schema.as_optional()

    def to_connect(self, frame: DataFrame) -> DataFrame:
        """Give the frame with values of the schema; runs no job."""
        kind = f"struct<v: {ddl(self.schema)}, p: string>"
        made = frame.withColumn(_MADE, self._udf("read", kind)(expr(name(self.role.value))))
        return super().to_connect(made).drop(_MADE)

    def from_connect(self, frame: DataFrame) -> DataFrame:
        """Give the frame with bytes; ConnectError for a column whose values never go with the schema."""
        sql = self._fitted(Records.of(frame).schemas[self.role.value])
        made = frame.withColumn(_MADE, self._udf("write", "struct<v: binary, p: string>")(expr(sql)))
        return super().from_connect(made).drop(_MADE)

    def decoded(self, records: Records, column: str) -> Converted:
        """Give the values that the frame has beside it."""
        return Converted(f"{_MADE}.v", self.schema, f"{_MADE}.p")

    def encoded(self, schema: Schema | None, column: str) -> Converted:
        """Give the bytes that the frame has beside it."""
        problem = f"{_MADE}.p"
        if schema is None:
            misfit = f"{name(column)} IS NOT NULL AND {_MADE}.v IS NULL"
            problem = f"coalesce({problem}, CASE WHEN {misfit} THEN 'the value is not of its Avro schema' END)"
        return Converted(f"{_MADE}.v", OPTIONAL_BYTES, problem)

    def _fitted(self, schema: Schema | None) -> str:
        """Give the SQL of the role's column as one of the schema's own type."""
        column, wanted = name(self.role.value), _widest(self.schema)
        if schema is None:
            return f"try_variant_get({column}, '$', {literal(ddl(wanted))})"
        _check(schema, wanted, f"the {self.role.value}")
        return projected(column, schema, wanted)

    def _udf(self, work: str, kind: str) -> Any:
        text = self._text

        def run(column: pa.Array) -> pa.Array:
            from barnabas.connect.spark.data.avro_records import avro_records

            made: pa.Array = getattr(avro_records(text), work)(column)
            return made

        return arrow_udf(run, kind)


def _schema_text(config: Mapping[str, Any]) -> str:
    text, path = config["schema"], config["schema.file"]
    if bool(text) == bool(path):
        raise ConfigError("set one of schema and schema.file")
    if text:
        return str(text)
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"schema.file: {error}") from error


def _widest(schema: Schema) -> Schema:
    """Give the schema with decimals of all digits: which have too many, each record then says."""
    return replace(
        schema,
        parameters=tuple(each for each in schema.parameters if each[0] != PRECISION),
        fields=tuple(Field(each.name, _widest(each.schema)) for each in schema.fields),
        key=schema.key and _widest(schema.key),
        value=schema.value and _widest(schema.value),
    )


def _check(schema: Schema, wanted: Schema, at: str) -> None:
    """Raise ConnectError where no value of a schema can become one of another."""
    wider = any(
        schema.type in kinds and wanted.type in kinds and kinds.index(schema.type) <= kinds.index(wanted.type)
        for kinds in (INTEGERS, FLOATS)
    )
    if (
        not (schema.type is wanted.type or wider)
        or schema.logical != wanted.logical
        or schema.parameter(SCALE) != wanted.parameter(SCALE)
    ):
        has, wants = schema.logical or schema.type.name, wanted.logical or wanted.type.name
        raise ConnectError(f"{at} is {has}, and its Avro schema wants {wants}")
    for field in wanted.fields:
        own = schema.field(field.name)
        if own is not None:
            _check(own, field.schema, f"{field.name} of {at}")
    for own, inner in ((schema.key, wanted.key), (schema.value, wanted.value)):
        if own is not None and inner is not None:
            _check(own, inner, f"what is in {at}")
