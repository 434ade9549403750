"""`barnabas features`: kafka-features with its flags."""

from __future__ import annotations

from typing import Final

import typer

from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig, Connection
from barnabas.cli.features.change import disable, downgrade, upgrade
from barnabas.cli.features.describe import describe
from barnabas.cli.storage.feature_dependencies import feature_dependencies
from barnabas.cli.storage.version_mapping import version_mapping

COMMANDS: Final = (
    ("describe", describe),
    ("upgrade", upgrade),
    ("downgrade", downgrade),
    ("disable", disable),
    ("version-mapping", version_mapping),
    ("feature-dependencies", feature_dependencies),
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
