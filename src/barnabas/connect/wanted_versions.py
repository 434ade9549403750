"""Which versions of classes a connector's configuration asks for, by `*.plugin.version` (KIP-891)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.connect.common_definitions import PARTS, TYPE, VERSION
from barnabas.connect.herder_port import BadRequestError
from barnabas.connect.plugin import CONNECTORS, Catalogue, Kind, Plugin, kinds_of_converters
from barnabas.core.connect.versions import BadVersionError, VersionRange
from barnabas.model.config import parse_list

Properties = Mapping[str, str | None]
_CONNECTOR: Final = "connector.plugin.version"


def wrong_connector(plugin: Plugin, properties: Properties) -> str | None:
    """Say why a connector is not here in a version that is wanted; BadRequestError where nothing can be wanted so."""
    try:
        wrong = plugin.lacks(properties.get(_CONNECTOR))
    except BadVersionError as e:
        raise BadRequestError(f"{_CONNECTOR}: {e}") from None
    return None if wrong is None else f"{_CONNECTOR}: {wrong}"


def wrong_part(plugin: Plugin | None, properties: Properties, prefix: str) -> str | None:
    """Say what is wrong with the version that is wanted of a part of a connector, None where nothing is."""
    setting = prefix + VERSION.name
    wanted = properties.get(setting)
    try:
        VersionRange.wanted(wanted)  # which is checked whatever the class
        wrong = None if plugin is None else plugin.lacks(wanted)
    except BadVersionError as e:
        return f"{setting}: {e}"
    return None if wrong is None else f"{setting}: {wrong}"


def wrong_versions(catalogue: Catalogue, properties: Mapping[str, str]) -> list[str]:
    """Say which classes that a configuration names are here in other versions than it asks for."""
    named: list[tuple[str, str, tuple[Kind, ...]]] = [("connector.", "connector.class", CONNECTORS)]
    named += [(f"{part}.converter.", f"{part}.converter", kinds_of_converters(part)) for part in PARTS]
    for setting, kind in (("transforms", Kind.TRANSFORMATION), ("predicates", Kind.PREDICATE)):
        prefixes = [f"{setting}.{alias}." for alias in parse_list(properties.get(setting) or "")]
        named += [(prefix, prefix + TYPE.name, (kind,)) for prefix in prefixes]
    found = ((prefix, catalogue.find(properties.get(setting), *kinds)) for prefix, setting, kinds in named)
    every = (wrong_part(plugin, properties, prefix) for prefix, plugin in found if plugin is not None)
    return [wrong for wrong in every if wrong is not None]
