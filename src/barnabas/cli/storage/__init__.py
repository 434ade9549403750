"""`barnabas storage`: kafka-storage's commands with its flags."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.storage.feature_dependencies import feature_dependencies
from barnabas.cli.storage.format import format_directories
from barnabas.cli.storage.info import info
from barnabas.cli.storage.random_uuid import random_uuid
from barnabas.cli.storage.version_mapping import version_mapping

COMMANDS: Final = (
    ("info", info),
    ("format", format_directories),
    ("version-mapping", version_mapping),
    ("feature-dependencies", feature_dependencies),
    ("random-uuid", random_uuid),
)

app = typer.Typer(no_args_is_help=True)
for _name, _function in COMMANDS:
    app.command(_name)(_function)
