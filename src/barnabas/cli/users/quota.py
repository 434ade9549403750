"""`barnabas users quota`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, pairs, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done
from barnabas.client.admin.users import USER


def quota(
    name: Annotated[str | None, typer.Argument(help="The user's name; every other user's default without.")] = None,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="producer_byte_rate, consumer_byte_rate, request_percentage ..."
        ),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="KEY", help="A quota to remove.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Set and remove quotas of a user.

    Examples:

      barnabas users quota alice --bootstrap-server localhost:9092 --set producer_byte_rate=1048576
    """
    changes: dict[str, float | None] = dict.fromkeys(remove or ())
    for key, value in pairs(set_, "--set").items():
        try:
            changes[key] = float(value)
        except ValueError:
            raise CliError(f"--set {key}={value}: a quota is a number.") from None
    if not changes:
        raise CliError("Say what to change: --set KEY=VALUE or --remove KEY.")
    config = client_config(bootstrap_server, command_config)
    run_admin(config, lambda a: a.alter_quotas({USER: name}, changes), needs="AlterConfigs on the cluster")
    done(f"Updated the quotas of {name or 'the default user'}.", output, user=name, changes=changes)
