"""Settings of all connectors, all sinks, all sources: Kafka Connect's, with its defaults and places on forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from barnabas.connect.definitions import Definition
from barnabas.core.connect.versions import BadVersionError, VersionRange
from barnabas.model.config import (
    REQUIRED,
    ConfigKey,
    ConfigType,
    Importance,
    Validator,
    at_least,
    not_empty,
    one_of,
)

COMMON_GROUP: Final = "Common"
TRANSFORMS_GROUP: Final = "Transforms"
PREDICATES_GROUP: Final = "Predicates"
_ERROR_GROUP: Final = "Error Handling"
_EXACTLY_ONCE_GROUP: Final = "Exactly Once Support"
_S, _I, _SHORT, _L, _B, _LIST, _C = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.BOOLEAN,
    ConfigType.LIST,
    ConfigType.CLASS,
)
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
PARTS: Final = ("key", "value", "header")
"""What has a converter each."""


def _name(value: str) -> str | None:
    if not value:
        return "want at least one character"
    return "want no control characters" if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value) else None


def distinct(value: Sequence[str]) -> str | None:
    """Allow lists in which nothing stands twice."""
    return None if len(set(value)) == len(value) else "an item stands twice"


def _versions(value: str) -> str | None:
    try:
        VersionRange.wanted(value)
    except BadVersionError as e:
        return str(e)
    return None


def _topics(value: Sequence[str]) -> str | None:
    return distinct(value) or (None if all(value) else "an item is empty")


def _regex(value: str) -> str | None:
    try:
        re.compile(value)
    except re.error as e:
        return f"want a regular expression: {e}"
    return None


class _Group:
    """Numbers the rows of one group, or of several whose rows are numbered together."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def row(
        self,
        group: str,
        name: str,
        kind: ConfigType,
        default: object,
        importance: Importance,
        width: str,
        display_name: str,
        doc: str,
        validator: Validator | None = None,
        **more: Any,
    ) -> Definition:
        """Give the next row."""
        order, self._next = self._next, self._next + 1
        key = ConfigKey(name, kind, default, doc, importance, validator)
        return Definition(key, group, order, width, display_name, **more)


def _converters(rows: _Group) -> list[Definition]:
    found = []
    for part in PARTS:
        what = f"{part.capitalize()} converter"
        found += [
            rows.row(
                COMMON_GROUP, f"{part}.converter", _C, None, _LOW, "SHORT", f"{what} class",
                f"How the {part}s of records are turned into bytes and back; the worker's unless it is set.",
            ),
            rows.row(
                COMMON_GROUP, f"{part}.converter.plugin.version", _S, None, _LOW, "SHORT", f"{what} version",
                f"The version of the {part} converter, or versions such as `[1.0,2.0)`.", _versions,
            ),
        ]  # fmt: skip
    return found


def _common() -> list[Definition]:
    c, e = _Group(), _Group()
    return [
        c.row(COMMON_GROUP, "name", _S, REQUIRED, _HIGH, "MEDIUM", "Connector name",
              "The connector's name, the only one of the group that has it.", _name),
        c.row(COMMON_GROUP, "connector.class", _S, REQUIRED, _HIGH, "LONG", "Connector class",
              "What the connector is: the name of a class, whole or its last part, with or without `Connector`."),
        c.row(COMMON_GROUP, "connector.plugin.version", _S, None, _MEDIUM, "MEDIUM", "Connector version",
              "The version of the class that it must be, or versions such as `[1.0,2.0)`."),
        c.row(COMMON_GROUP, "tasks.max", _I, 1, _HIGH, "SHORT", "Tasks max",
              "How many tasks it may have at most.", at_least(1), needs_value=True),
        c.row(COMMON_GROUP, "tasks.max.enforce", _B, True, _LOW, "SHORT", "Enforce tasks max",
              "Accepted; a connector that makes more tasks than it may fails in any case."),
        *_converters(c),
        c.row(TRANSFORMS_GROUP, "transforms", _LIST, [], _LOW, "LONG", "Transforms",
              "Names of your own for the transformations of records, in their order.", distinct),
        c.row(PREDICATES_GROUP, "predicates", _LIST, [], _LOW, "LONG", "Predicates",
              "Names of your own for the predicates that transformations use.", distinct),
        c.row(COMMON_GROUP, "config.action.reload", _S, "restart", _LOW, "MEDIUM", "Reload Action",
              "Accepted; secrets are read anew whenever a connector or task starts.", one_of("none", "restart")),
        e.row(_ERROR_GROUP, "errors.retry.timeout", _L, 0, _MEDIUM, "MEDIUM", "Retry Timeout for Errors",
              "How long what failed is tried again, ms; 0: not at all, -1: without end."),
        e.row(_ERROR_GROUP, "errors.retry.delay.max.ms", _L, 60_000, _MEDIUM, "MEDIUM",
              "Maximum Delay Between Retries for Errors", "The longest pause between two tries, ms."),
        e.row(_ERROR_GROUP, "errors.tolerance", _S, "none", _MEDIUM, "SHORT", "Error Tolerance",
              "none: the first record that fails fails the task; all: failing records are left out.",
              one_of("none", "all")),
        e.row(_ERROR_GROUP, "errors.log.enable", _B, False, _MEDIUM, "SHORT", "Log Errors",
              "Whether each failing record gets a line in the log."),
        e.row(_ERROR_GROUP, "errors.log.include.messages", _B, False, _MEDIUM, "SHORT", "Log Error Details",
              "Whether that line says where the record stands."),
    ]  # fmt: skip


def _of_sinks() -> list[Definition]:
    e = _Group(6)
    dead_letters = "errors.deadletterqueue."
    return [
        _Group(4).row(COMMON_GROUP, "topics", _LIST, [], _HIGH, "LONG", "Topics",
                      "The topics to read, separated by commas.", _topics),
        _Group(4).row(COMMON_GROUP, "topics.regex", _S, "", _HIGH, "LONG", "Topics regex",
                      "A regular expression; the topics whose whole name it matches are read.", _regex),
        e.row(_ERROR_GROUP, f"{dead_letters}topic.name", _S, "", _MEDIUM, "MEDIUM", "Dead Letter Queue Topic Name",
              "Where records go that fail; empty: nowhere."),
        e.row(_ERROR_GROUP, f"{dead_letters}topic.replication.factor", _SHORT, 3, _MEDIUM, "MEDIUM",
              "Dead Letter Queue Topic Replication Factor", "How many copies that topic has, if it has to be made."),
        e.row(_ERROR_GROUP, f"{dead_letters}context.headers.enable", _B, False, _MEDIUM, "MEDIUM",
              "Enable Error Context Headers",
              "Whether such records say in headers, `__connect.errors.*`, what happened to them."),
    ]  # fmt: skip


def _of_sources() -> list[Definition]:
    g = _Group()
    return [
        g.row("Topic Creation", "topic.creation.groups", _LIST, [], _LOW, "LONG", "Topic Creation Groups",
              "Names of your own for rules by which topics are made.", distinct),
        g.row(_EXACTLY_ONCE_GROUP, "exactly.once.support", _S, "requested", _MEDIUM, "SHORT", "Exactly once support",
              "required: refuse a connector that does not say that it is exactly once; requested: do not ask.",
              one_of("required", "requested", ignore_case=True)),
        g.row(_EXACTLY_ONCE_GROUP, "transaction.boundary", _S, "poll", _MEDIUM, "SHORT", "Transaction Boundary",
              "Where transactions end: poll, after each batch; interval, after some time; connector, where it says.",
              one_of("poll", "interval", "connector", ignore_case=True)),
        g.row(_EXACTLY_ONCE_GROUP, "transaction.boundary.interval.ms", _L, None, _LOW, "SHORT",
              "Transaction boundary interval",
              "How long those of the boundary interval last, ms; offset.flush.interval.ms of the worker if not set.",
              at_least(0)),
        _Group().row("offsets.topic", "offsets.storage.topic", _S, None, _LOW, "LONG", "Offsets topic",
                     "A topic for the connector's offsets, made if missing; if not set, the worker's.", not_empty),
    ]  # fmt: skip


COMMON: Final = _common()
SINKS: Final = _of_sinks()
SOURCES: Final = _of_sources()

TYPE: Final = ConfigKey("type", _C, REQUIRED, "The name of the class.", _HIGH)
VERSION: Final = ConfigKey("plugin.version", _S, None, "The version of the class that it must be, or versions.", _HIGH)
OF_TRANSFORMATIONS: Final = (
    Definition(
        ConfigKey("predicate", _S, None, "The name of the predicate that picks the records to transform.", _MEDIUM)
    ),
    Definition(ConfigKey("negate", _B, False, "Whether those are transformed that it does not pick.", _MEDIUM)),
)
CONVERTER_TYPE: Final = Definition(
    ConfigKey("converter.type", _S, REQUIRED, "key, value or header.", _LOW, one_of(*PARTS))
)


def _shown(group: str | None, order: int, display_name: str, width: str = "MEDIUM") -> Definition:
    return Definition(ConfigKey("", _S, None), group, order, width, display_name)


CONVERTER_PLACES: Final[Mapping[str, Mapping[str, Definition]]] = {
    "org.apache.kafka.connect.json.JsonConverter": {
        "schemas.enable": _shown("Schemas", 0, "Enable Schemas"),
        "schemas.cache.size": _shown("Schemas", 1, "Schema Cache Size"),
        "schema.content": _shown("Schemas", 2, "Schema Content"),
        "schema.ddl": _shown("Schemas", 3, "Schema as DDL"),
        "decimal.format": _shown("Serialization", 0, "Decimal Format"),
        "replace.null.with.default": _shown("Serialization", 1, "Replace null with default"),
    },
    "org.apache.kafka.connect.storage.StringConverter": {"converter.encoding": _shown(None, -1, "Encoding")},
}
"""Where forms show the settings of converters, by class."""


def with_default(row: Definition, default: object) -> Definition:
    """Give a row with another default."""
    return replace(row, key=replace(row.key, default=default))
