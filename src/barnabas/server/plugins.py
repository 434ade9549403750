"""Finds the classes that settings name: `module:Class`, `module.Class`, or an entry point of an installed package."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from barnabas.model.config import ConfigError


def load(key: str, name: str, group: str) -> Any:
    """Give what `name`, the value of the setting `key`, stands for; group: of entry points. ConfigError for nothing."""
    for point in entry_points(group=group, name=name):
        return point.load()
    module, colon, attribute = name.partition(":")
    if not colon:
        module, _, attribute = name.rpartition(".")
    try:
        if not module:
            raise ImportError(f"there is no entry point {name!r} in the group {group}")
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise ConfigError(
            f"{key}: cannot load {name!r}: {e}; want a Python class as module:Class, or the name of an entry point "
            f"in the group {group}"
        ) from e
