"""Plug-ins by kind and by name: a class, what configurations may call it, and which of its settings are declared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from barnabas.core.connect.versions import VersionRange
from barnabas.model.config import ConfigTable


class Kind(Enum):
    """What a plug-in is. label: in the REST API's words; suffix: what its class's name may be given without."""

    SINK = ("sink", "Connector")
    SOURCE = ("source", "Connector")
    TRANSFORMATION = ("transformation", "Transformation")
    PREDICATE = ("predicate", "Predicate")
    CONVERTER = ("converter", "Converter")
    HEADER_CONVERTER = ("header_converter", "HeaderConverter")

    def __init__(self, label: str, suffix: str) -> None:
        self.label = label
        self.suffix = suffix


CONNECTORS = (Kind.SINK, Kind.SOURCE)


def kinds_of_converters(part: str) -> tuple[Kind, ...]:
    """Give what a converter of a part of records (key, value or header) is."""
    return (Kind.HEADER_CONVERTER,) if part == "header" else (Kind.CONVERTER,)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that configurations may name. made_by: what it is in Python; alias: a further name of it."""

    class_name: str
    kind: Kind
    made_by: type[Any]
    version: str
    alias: str | None = None

    @property
    def config(self) -> ConfigTable:
        """Give the settings that it declares."""
        table: ConfigTable = getattr(self.made_by, "CONFIG", ConfigTable())
        return table

    def lacks(self, wanted: str | None) -> str | None:
        """Say why this is not what a setting `plugin.version` asks for, None where it is; BadVersionError."""
        versions = VersionRange.wanted(wanted)
        if versions is None or self.version in versions:
            return None
        return f"{self.class_name} is here in version {self.version} alone, and {wanted!r} is wanted"

    def is_called(self, name: str) -> bool:
        """Say whether a configuration that says `name` means it."""
        last = self.class_name.rpartition(".")[2]
        return name in (self.class_name, last, last.removesuffix(self.kind.suffix), self.alias)


class Catalogue:
    """All plug-ins of a worker: sinks first, then the other kinds, each by name."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        order = list(Kind)
        self._plugins = sorted(plugins, key=lambda each: (order.index(each.kind), each.class_name))

    def of(self, *kinds: Kind) -> Sequence[Plugin]:
        """Give those of these kinds, of all where none is given."""
        return [each for each in self._plugins if each.kind in (kinds or tuple(Kind))]

    def find(self, name: str | None, *kinds: Kind) -> Plugin | None:
        """Give what a configuration means by `name`, of one of these kinds, None for nothing.

        A whole name goes before its parts.
        """
        wanted = (name or "").strip()
        if not wanted:
            return None
        candidates = self.of(*kinds)
        whole = (each for each in candidates if each.class_name == wanted)
        return next(whole, None) or next((each for each in candidates if each.is_called(wanted)), None)

    def class_names(self, *kinds: Kind) -> list[str]:
        """Give the whole names of those of these kinds."""
        return [each.class_name for each in self.of(*kinds)]
