"""`barnabas doctor`: what is missing on a machine, what a node serves, what is wrong with a data directory."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.doctor.apis import apis
from barnabas.cli.doctor.data import data
from barnabas.cli.doctor.machine import machine
from barnabas.cli.tables import Output, OutputFormat

COMMANDS: Final = (("machine", machine), ("apis", apis), ("data", data))

app = typer.Typer()


@app.callback(invoke_without_command=True)
def _default(ctx: typer.Context, output: Output = OutputFormat.TABLE) -> None:
    """Look for what is missing or wrong; without a sub-command: on this machine."""
    if ctx.invoked_subcommand is None:
        machine(output=output)


for _name, _function in COMMANDS:
    app.command(_name)(_function)
