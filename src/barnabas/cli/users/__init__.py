"""`barnabas users`: SCRAM users and their quotas, the short way to what kafka-configs does in long lines."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.users.create import create
from barnabas.cli.users.delete import delete
from barnabas.cli.users.listing import list_users
from barnabas.cli.users.quota import quota

COMMANDS: Final = (("list", list_users), ("create", create), ("delete", delete), ("quota", quota))

app = typer.Typer(no_args_is_help=True)
for _name, _function in COMMANDS:
    app.command(_name)(_function)
