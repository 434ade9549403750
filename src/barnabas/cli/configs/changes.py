"""The values of --add-config and --delete-config."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.cli.errors import CliError
from barnabas.client.config import load_properties_file

_PAIR: Final = re.compile(r"\s*([^=,\s]+)\s*=\s*(?:\[([^\]]*)\]|([^,\[]*))\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class Changes:
    """Settings to set and settings to remove."""

    add: Mapping[str, str]
    delete: tuple[str, ...]


def parse_changes(add: str | None, add_file: Path | None, delete: str | None) -> Changes:
    """Give what the flags say; CliError when they say nothing."""
    added = parse_pairs(add) if add is not None else load_properties_file(add_file) if add_file is not None else {}
    deleted = tuple(k.strip() for k in (delete or "").split(",") if k.strip())
    if not added and not deleted:
        raise CliError("Say what to change: --add-config, --add-config-file or --delete-config.")
    return Changes(added, deleted)


def parse_pairs(text: str) -> dict[str, str]:
    """Give the pairs of `k=v,k=[v,v]`; CliError when they cannot be read."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise CliError("--add-config: want KEY=VALUE,KEY=[VALUE,VALUE]; a value with a comma stands in [ ].")
        found[match[1]] = (match[2] if match[2] is not None else match[3]).strip()
        position = match.end()
    return found
