"""What a transformation is: SQL for new columns, made from what is known of the old ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from barnabas.connect.spark.data.records import KEY, VALUE, Records
from barnabas.connect.spark.data.schema import Schema
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance

REPLACE_NULL: Final = ConfigKey(
    "replace.null.with.default",
    ConfigType.BOOLEAN,
    True,
    "Whether a null field becomes the default of its schema, where there is one.",
)
PARTS: Final = {"Key": KEY, "Value": VALUE}
"""The column that the variants `$Key` and `$Value` of a class work on."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of records.

    columns: key and value anew, each with its schema; others: any other columns anew; problem: SQL of why a record
    cannot be transformed, null where it can, None if all can; kept: SQL of whether a record stays, None if all do.
    """

    columns: Mapping[str, tuple[str, Schema | None]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    kept: str | None = None


class Transformation(ABC):
    """One of Kafka's transformations. config: as text, without its prefix; ConfigError names what is wrong.

    part: the column of a class with the variants `$Key` and `$Value`; `value` for one that has none.
    """

    CLASS_NAME: ClassVar[str]
    """Of the JVM's class that does the same, without `$Key` or `$Value`."""
    HAS_PARTS: ClassVar[bool] = True
    CONFIG: ClassVar[ConfigTable]

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        self.config: Mapping[str, Any] = self.CONFIG.parse(config).values
        self.part = part

    @property
    def replaces_null(self) -> bool:
        """Say whether a null field stands for its default."""
        return bool(self.config.get(REPLACE_NULL.name, True))

    @abstractmethod
    def change(self, records: Records) -> Change:
        """Give what becomes of records, all of which are to be transformed. It is SQL that never raises."""


def setting(
    name: str,
    kind: ConfigType,
    default: object,
    doc: str,
    validator: Any = None,
    importance: Importance = Importance.HIGH,
) -> ConfigKey:
    """Give a row of a transformation's table."""
    return ConfigKey(name, kind, default, doc, importance, validator)
