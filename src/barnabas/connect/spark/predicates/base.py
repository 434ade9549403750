"""Predicates: SQL of whether a transformation applies to a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame

from barnabas.connect.installed import PREDICATES as INSTALLED
from barnabas.connect.installed import installed
from barnabas.connect.spark.data.records import VALUE
from barnabas.connect.spark.data.sql import literal, name, variable
from barnabas.connect.spark.transforms.headers import HEADERS
from barnabas.connect.spark.transforms.routing import regex, whole_match
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType, Importance, not_empty


class Predicate(ABC):
    """One of Kafka's predicates. config: as text, without its prefix; ConfigError names what is wrong."""

    CLASS_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigTable] = ConfigTable()

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config: Mapping[str, Any] = self.CONFIG.parse(config).values

    @abstractmethod
    def test(self, frame: DataFrame) -> str:
        """Give SQL that is true or false, never null."""


class HasHeaderKey(Predicate):
    """True of records with a header of that key."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.predicates.HasHeaderKey"
    CONFIG = ConfigTable(
        ConfigKey("name", ConfigType.STRING, REQUIRED, "The header's key.", Importance.MEDIUM, not_empty)
    )

    def test(self, frame: DataFrame) -> str:
        """Look through the headers."""
        if HEADERS not in frame.columns:
            return "false"
        header = variable()
        return f"coalesce(exists({name(HEADERS)}, {header} -> {header}.key = {literal(self.config['name'])}), false)"


class RecordIsTombstone(Predicate):
    """True of records without a value."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"

    def test(self, frame: DataFrame) -> str:
        """Look at the value."""
        return f"{name(VALUE)} IS NULL"


class TopicNameMatches(Predicate):
    """True of records whose topic's whole name matches."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
    CONFIG = ConfigTable(
        ConfigKey("pattern", ConfigType.STRING, REQUIRED, "A Java regular expression.", Importance.MEDIUM, regex)
    )

    def test(self, frame: DataFrame) -> str:
        """Match the name."""
        return f"coalesce({whole_match(name('topic'), self.config['pattern'])}, false)"


PREDICATES: Final[tuple[type[Predicate], ...]] = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
"""All that are shipped."""


def predicates() -> Sequence[type[Predicate]]:
    """Give all that are shipped or installed."""
    return [*PREDICATES, *(one for _, one in installed(INSTALLED, Predicate))]  # type: ignore[type-abstract]
