"""Transformations by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.connect.installed import TRANSFORMS, installed
from barnabas.connect.spark.data.records import VALUE
from barnabas.model.config import ConfigError

from .base import PARTS, Transformation
from .cast import Cast
from .dates import TimestampConverter
from .filling import InsertField, MaskField, SetSchemaMetadata
from .headers import DropHeaders, HeaderFrom, InsertHeader
from .routing import Filter, RegexRouter, TimestampRouter
from .shaping import ExtractField, Flatten, HoistField, ReplaceField, ValueToKey

TRANSFORMATIONS: Final[tuple[type[Transformation], ...]] = (
    Cast, DropHeaders, ExtractField, Filter, Flatten, HeaderFrom, HoistField, InsertField, InsertHeader, MaskField,
    RegexRouter, ReplaceField, SetSchemaMetadata, TimestampConverter, TimestampRouter, ValueToKey,
)  # fmt: skip
"""All that are shipped."""


def transformations() -> Sequence[type[Transformation]]:
    """Give all that are shipped or installed."""
    return [*TRANSFORMATIONS, *(one for _, one in installed(TRANSFORMS, Transformation))]  # type: ignore[type-abstract]


def class_names() -> list[str]:
    """Give the names under which they can be asked for, `$Key` and `$Value` where there are such variants."""
    return [
        one.CLASS_NAME + variant
        for one in transformations()
        for variant in ([f"${part}" for part in PARTS] if one.HAS_PARTS else [""])
    ]


def make_transformation(named: str, config: Mapping[str, str]) -> Transformation:
    """Give the transformation of a class name, JVM's or its last part; ConfigError for an unknown one."""
    base, _, variant = named.strip().partition("$")
    for one in transformations():
        if base not in (one.CLASS_NAME, one.CLASS_NAME.rpartition(".")[2]):
            continue
        if one.HAS_PARTS and variant in PARTS:
            return one(config, PARTS[variant])
        if one.HAS_PARTS:
            raise ConfigError(f"{named} works on key or value: want {base}$Key or {base}$Value")
        if not variant:
            return one(config, VALUE)
    raise ConfigError(f"there is no transformation {named!r}; there are {', '.join(class_names())}")
