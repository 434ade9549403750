"""The plug-ins that are there: what is shipped, as a table, and what other packages bring by entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from barnabas.connect.connector import Connector, Sink
from barnabas.connect.installed import CONNECTORS, installed
from barnabas.connect.plugin import Catalogue, Kind, Plugin

_HERE: Final = "barnabas.connect."
_KAFKA: Final = "org.apache.kafka.connect."
_CONNECTORS: Final = {
    f"{_KAFKA}file.FileStreamSinkConnector": f"{_HERE}connectors.file_stream_sink:FileStreamSink",
    f"{_KAFKA}file.FileStreamSourceConnector": f"{_HERE}connectors.file_stream_source:FileStreamSource",
    f"{_HERE}connectors.spark_sink.SparkSink": f"{_HERE}connectors.spark_sink:SparkSink",
    f"{_HERE}connectors.spark_source.SparkSource": f"{_HERE}connectors.spark_source:SparkSource",
    f"{_HERE}connectors.jdbc_sink.JdbcSink": f"{_HERE}connectors.jdbc_sink:JdbcSink",
    f"{_HERE}connectors.jdbc_source.JdbcSource": f"{_HERE}connectors.jdbc_source:JdbcSource",
}
"""Shipped connectors: the name that configurations and other workers know, and the class."""
_TABLES: Final = {
    Kind.TRANSFORMATION: f"{_HERE}spark.transforms.registry:transformations",
    Kind.PREDICATE: f"{_HERE}spark.predicates:predicates",
    Kind.CONVERTER: f"{_HERE}spark.converters.registry:converters",
    Kind.HEADER_CONVERTER: f"{_HERE}spark.converters.headers:header_converters",
}
"""What gives the other kinds, installed ones among them; each class says what it is called."""
_VERSION: Final = "1.0"


def catalogue() -> Catalogue:
    """Give all plug-ins. One that cannot be loaded is logged and left out."""
    return Catalogue([*_shipped_connectors(), *_installed_connectors(), *_parts()])


def _shipped_connectors() -> Iterator[Plugin]:
    for class_name, where in _CONNECTORS.items():
        yield _connector(class_name, _load(where), None)


def _installed_connectors() -> Iterator[Plugin]:
    for name, made_by in installed(CONNECTORS, Connector):  # type: ignore[type-abstract]
        yield _connector(f"{made_by.__module__}.{made_by.__qualname__}", made_by, name)


def _connector(class_name: str, made_by: type[Connector], alias: str | None) -> Plugin:
    kind = Kind.SINK if issubclass(made_by, Sink) else Kind.SOURCE
    return Plugin(class_name, kind, made_by, made_by.VERSION, alias)


def _parts() -> Iterator[Plugin]:
    for kind, where in _TABLES.items():
        for made_by in _load(where)():
            variants = ("$Key", "$Value") if getattr(made_by, "HAS_PARTS", False) else ("",)
            for variant in variants:
                yield Plugin(made_by.CLASS_NAME + variant, kind, made_by, _VERSION)


def _load(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
