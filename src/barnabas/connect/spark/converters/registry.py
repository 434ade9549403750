"""Converters by name, and the one that a connector's or a worker's properties ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.connect.installed import CONVERTERS as INSTALLED
from barnabas.connect.installed import installed
from barnabas.model.config import ConfigError

from .avro import AvroConverter
from .base import Converter, Role
from .byte_array import ByteArrayConverter
from .json import JsonConverter
from .numbers import NUMBERS
from .string import StringConverter

CONVERTERS: Final[tuple[type[Converter], ...]] = (
    StringConverter, ByteArrayConverter, JsonConverter, *NUMBERS, AvroConverter,
)  # fmt: skip
"""All that are shipped."""


def converters() -> Sequence[type[Converter]]:
    """Give all that are shipped or installed."""
    return [*CONVERTERS, *(one for _, one in installed(INSTALLED, Converter))]  # type: ignore[type-abstract]


def converter_class(named: str) -> type[Converter]:
    """Give the converter of a JVM's class name, or of its last part; ConfigError if none."""
    wanted = named.strip()
    known = converters()
    for one in known:
        last = one.CLASS_NAME.rpartition(".")[2]
        if wanted in (one.CLASS_NAME, last, last.removesuffix("Converter")):
            return one
    raise ConfigError(f"there is no converter {wanted!r}; there are {', '.join(one.CLASS_NAME for one in known)}")


def make_converter(properties: Mapping[str, str], role: Role, worker: Mapping[str, str] | None = None) -> Converter:
    """Give the converter of a connector's properties, or of the worker's where those name none.

    As in Kafka: a connector that names its own converter takes nothing from the worker's settings of another.
    """
    prefix = f"{role.value}.converter"
    source = properties if prefix in properties else (worker or {})
    named = source.get(prefix)
    if named is None:
        raise ConfigError(f"{prefix} is not set, and has no default")
    own = {name[len(prefix) + 1 :]: text for name, text in source.items() if name.startswith(prefix + ".")}
    try:
        return converter_class(named)(own, role)
    except ConfigError as error:
        raise ConfigError(f"{prefix}: {error}") from error
