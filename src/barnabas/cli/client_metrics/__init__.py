"""`barnabas client-metrics`: kafka-client-metrics with its flags (KIP-714)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from barnabas.cli.client_metrics import actions
from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, exactly_one, require
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat
from barnabas.model.uuid import Uuid

_SELECTORS: Final = (
    "client_id, client_instance_id, client_software_name, client_software_version, client_source_address, "
    "client_source_port"
)


def command(
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    alter: Annotated[bool, typer.Option("--alter", help="Make or change a subscription.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete a subscription.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show one subscription, or all.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the names of subscriptions.")] = False,
    name: Annotated[str | None, typer.Option(help="The name of the subscription.")] = None,
    generate_name: Annotated[bool, typer.Option("--generate-name", help="Give it a name of its own.")] = False,
    interval: Annotated[
        str | None, typer.Option(metavar="MS", help="How often clients push, ms; empty for the default.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(metavar="K1=V1,K2=V2", help=f"Which clients: selectors with patterns, of {_SELECTORS}."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="M1,M2", help="What the metrics' names begin with; * for all.")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say which of their metrics clients are to push to the brokers, as kafka-client-metrics does.

    Examples:

      barnabas client-metrics --bootstrap-server localhost:9092 --alter --name latencies --interval 30000
      --metrics org.apache.kafka.producer. --match 'client_id=billing-.*'

      barnabas client-metrics --bootstrap-server localhost:9092 --describe
    """
    action = exactly_one({"--alter": alter, "--delete": delete, "--describe": describe, "--list": list_})
    settings = {"--interval": interval, "--match": match, "--metrics": metrics}
    given = [flag for flag, value in settings.items() if value is not None]
    _check(action, [*given, *(["--generate-name"] if generate_name else [])], name)
    config = client_config(bootstrap_server, command_config)
    if action == "--list":
        actions.list_subscriptions(config, output)
    elif action == "--describe":
        actions.describe_subscriptions(config, name, output)
    elif action == "--delete":
        actions.delete_subscription(config, require(name, "--name"), output)
    else:
        if interval and not interval.strip().isdecimal():
            raise CliError(f"--interval {interval!r}: want a whole number of ms, or nothing for the default.")
        wanted = {"interval.ms": interval, "match": match, "metrics": metrics}
        changes = {key: value for key, value in wanted.items() if value is not None}
        actions.alter_subscription(config, name or str(Uuid(uuid.uuid4().bytes)), changes, output)


def _check(action: str, given: Sequence[str], name: str | None) -> None:
    """CliError when flags do not go with the action. given: those of --alter that are there."""
    if action == "--alter":
        if (name is not None) == ("--generate-name" in given):
            raise CliError("Say --name or --generate-name, one of the two.")
    elif given:
        raise CliError(f"{given[0]} goes with --alter, not with {action}.")
    if action == "--list" and name is not None:
        raise CliError("--list names all subscriptions: leave --name out, or say --describe.")
