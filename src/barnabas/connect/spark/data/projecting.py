"""Values of one schema as values of a wider one."""

from __future__ import annotations

from barnabas.connect.spark.data.schema import Schema, Type
from barnabas.connect.spark.data.spark_types import ddl
from barnabas.connect.spark.data.sql import literal, name, variable


def projected(sql: str, schema: Schema, wider: Schema) -> str:
    """Give SQL of a value as one of a schema that `merge` made of its own and another."""
    if ddl(schema) == ddl(wider):
        return sql
    match schema.type:
        case Type.STRUCT:
            fields = []
            for field in wider.fields:
                own = schema.field(field.name)
                value = f"cast(NULL as {ddl(field.schema)})"
                if own is not None:
                    value = projected(f"{sql}.{name(field.name)}", own, field.schema)
                fields.append(f"{literal(field.name)}, {value}")
            return f"CASE WHEN {sql} IS NOT NULL THEN named_struct({', '.join(fields)}) END"
        case Type.ARRAY if schema.value is not None and wider.value is not None:
            element = variable()
            return f"transform({sql}, {element} -> {projected(element, schema.value, wider.value)})"
        case Type.MAP if schema.value is not None and wider.value is not None:
            key, value = variable(), variable()
            return f"transform_values({sql}, ({key}, {value}) -> {projected(value, schema.value, wider.value)})"
    return f"cast({sql} as {ddl(wider)})"
