"""`barnabas transactions`: kafka-transactions with its flags."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, Connection
from barnabas.cli.transactions.ending import abort, force_terminate
from barnabas.cli.transactions.hanging import find_hanging
from barnabas.cli.transactions.looking import describe, describe_producers, list_transactions

COMMANDS: Final = (
    ("list", list_transactions),
    ("describe", describe),
    ("describe-producers", describe_producers),
    ("abort", abort),
    ("find-hanging", find_hanging),
    ("force-terminate", force_terminate),
)

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _connection(ctx: typer.Context, bootstrap_server: Bootstrap = None, command_config: CommandConfig = None) -> None:
    """Show what transactions producers have open; find those that hang, and end them.

    Examples:

      barnabas transactions --bootstrap-server localhost:9092 list

      barnabas transactions --bootstrap-server localhost:9092 find-hanging --topic flights
    """
    ctx.obj = Connection(bootstrap_server, command_config=command_config)


for _name, _function in COMMANDS:
    app.command(_name)(_function)
app.command("forceTerminateTransaction", hidden=True)(force_terminate)  # Kafka's spelling
