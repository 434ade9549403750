"""`barnabas connectors`: what runs in a Connect group, seen and driven through the REST API of any of its workers."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.connectors import changing, offsets
from barnabas.cli.connectors.create import create
from barnabas.cli.connectors.logs import logs
from barnabas.cli.connectors.looking import list_connectors, status
from barnabas.cli.connectors.watch import watch

COMMANDS: Final = (
    ("list", list_connectors),
    ("status", status),
    ("create", create),
    ("pause", changing.pause),
    ("resume", changing.resume),
    ("restart", changing.restart),
    ("stop", changing.stop),
    ("delete", changing.delete),
    ("logs", logs),
    ("watch", watch),
)

app = typer.Typer(no_args_is_help=True)
for _name, _function in COMMANDS:
    app.command(_name)(_function)
app.add_typer(offsets.app, name="offsets", help="Show where connectors are, and move them.")
