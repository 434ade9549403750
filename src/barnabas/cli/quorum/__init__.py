"""`barnabas quorum`: kafka-metadata-quorum with its flags."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig
from barnabas.cli.quorum.describe import describe

COMMANDS: Final = (("describe", describe),)

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _connection(ctx: typer.Context, bootstrap_server: Bootstrap = None, command_config: CommandConfig = None) -> None:
    # Kafka's tool takes these before the sub-command; ours takes them on either side.
    ctx.obj = (bootstrap_server, command_config)


for _name, _function in COMMANDS:
    app.command(_name)(_function)
