"""Settings as Connect's REST API shows them: a row of a table, where it stands on a form, and what a value came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from barnabas.model.config import MASKED, REQUIRED, ConfigError, ConfigKey, ConfigTable, ConfigType

_UNPLACED: Final = -1
_ACCEPTED: Final = "Accepted; it changes nothing."
_IMPORTANCE: Final = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Definition:
    """A setting. group, order, width, display_name: where and how a form shows it; group None: nowhere in particular.

    needs_value: the check of the value objects to there being none, as Kafka's ranges do, though it is not required.
    """

    key: ConfigKey
    group: str | None = None
    order: int = _UNPLACED
    width: str = "NONE"
    display_name: str = ""
    needs_value: bool = False

    @property
    def name(self) -> str:
        """Give the setting's name."""
        return self.key.name

    def placed(self, prefix: str, group: str | None = None, order: int | None = None) -> Definition:
        """Give it under a prefix, and in a group of another form where one is given."""
        return replace(
            self,
            key=replace(self.key, name=prefix + self.key.name),
            group=self.group if group is None else group,
            order=self.order if order is None else order,
            display_name=self.display_name or self.key.name,
        )

    def as_json(self) -> dict[str, Any]:
        """Give it as the REST API shows it."""
        key = self.key
        required = key.default is REQUIRED
        return {
            "name": key.name,
            "type": key.type.name,
            "required": required,
            "default_value": None if required else self.text(key.default),
            "importance": key.importance.value.upper(),
            "documentation": key.doc or _ACCEPTED,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.display_name or key.name,
            "dependents": [],
        }

    def text(self, value: object) -> str | None:
        """Give the text of a typed value, secrets masked; None for none."""
        if value is not None and self.key.type is ConfigType.PASSWORD:
            return MASKED
        return self.key.format(value)


@dataclass(slots=True)
class Examined:
    """What a setting came to. value: typed, None where there is none that could be used; errors: all that is wrong."""

    name: str
    value: object = None
    errors: list[str] = field(default_factory=list)
    recommended: Sequence[str] = ()
    visible: bool = True

    def as_json(self, definition: Definition | None) -> dict[str, Any]:
        """Give it beside its definition as the REST API shows them; None for a setting that nobody declares."""
        text = str(self.value) if definition is None and self.value is not None else None
        return {
            "definition": None if definition is None else definition.as_json(),
            "value": {
                "name": self.name,
                "value": text if definition is None else definition.text(self.value),
                "recommended_values": list(self.recommended),
                "errors": list(self.errors),
                "visible": self.visible,
            },
        }


def examine(definition: Definition, properties: Mapping[str, str | None]) -> Examined:
    """Give what a configuration has for a setting, defaults included; never raises."""
    key, found = definition.key, Examined(definition.name)
    if key.name in properties:
        text = properties[key.name]
        try:
            found.value = None if text is None else replace(key, validator=None).parse(text)
        except ConfigError as e:
            found.errors.append(str(e))
    elif key.default is REQUIRED:
        found.errors.append(f"{key.name} is not set, and has no default")
        return found
    else:
        found.value = key.default
    if found.value is None:
        if definition.needs_value and key.name in properties:
            found.errors.append(f"{key.name}: there is no value")
        return found
    try:
        key.check(found.value)
    except ConfigError as e:
        found.errors.append(str(e))
    return found


def definitions(table: ConfigTable, places: Mapping[str, Definition] | None = None) -> list[Definition]:
    """Give a table's rows, placed on the form where `places` says so."""
    known = places or {}
    return [replace(known[key.name], key=key) if key.name in known else Definition(key) for key in table]


def by_weight(rows: Sequence[Definition]) -> list[Definition]:
    """Give rows in the order in which Connect lists those of a transformation: required, important, then by name."""
    return sorted(
        rows, key=lambda d: (d.key.default is not REQUIRED, _IMPORTANCE.index(d.key.importance.value), d.name)
    )
