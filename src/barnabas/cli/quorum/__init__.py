"""`barnabas quorum`: kafka-metadata-quorum with its flags."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig, Connection
from barnabas.cli.quorum.controllers import add_controller, remove_controller
from barnabas.cli.quorum.describe import describe

COMMANDS: Final = (
    ("describe", describe),
    ("add-controller", add_controller),
    ("remove-controller", remove_controller),
)

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _connection(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
) -> None:
    ctx.obj = Connection(bootstrap_server, bootstrap_controller, command_config)


for _name, _function in COMMANDS:
    app.command(_name)(_function)
