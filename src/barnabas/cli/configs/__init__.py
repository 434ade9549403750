"""`barnabas configs`: kafka-configs with its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli.configs.alter import alter
from barnabas.cli.configs.changes import parse_changes
from barnabas.cli.configs.describe import describe
from barnabas.cli.configs.entities import entities_of
from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, exactly_one
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat

_ORDER = "barnabas.configs.order"


def _note_order(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Remember which of --entity-name and --entity-default came first: they pair up with types in that order."""
    if value:
        ctx.meta.setdefault(_ORDER, []).append(param.name)
    return value


def command(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    describe_: Annotated[bool, typer.Option("--describe", help="Show settings.")] = False,
    alter_: Annotated[bool, typer.Option("--alter", help="Change settings.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show those too that have their default.")] = False,
    add_config: Annotated[
        str | None, typer.Option(metavar="K=V,K=[V,V]", help="Settings to set; a list stands in square brackets.")
    ] = None,
    add_config_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A properties file of settings to set.")
    ] = None,
    delete_config: Annotated[str | None, typer.Option(metavar="K,K", help="Settings to remove.")] = None,
    entity_type: Annotated[
        list[str] | None,
        typer.Option(help="topics, brokers, broker-loggers, users, clients, ips, groups or client-metrics."),
    ] = None,
    entity_name: Annotated[
        list[str] | None, typer.Option(help="The name of the topic, broker id, user ...", callback=_note_order)
    ] = None,
    entity_default: Annotated[
        int, typer.Option("--entity-default", count=True, help="The default of the type.", callback=_note_order)
    ] = 0,
    topic: Annotated[str | None, typer.Option(help="Short for --entity-type topics --entity-name.")] = None,
    broker: Annotated[str | None, typer.Option(help="Short for --entity-type brokers --entity-name.")] = None,
    broker_defaults: Annotated[
        bool, typer.Option("--broker-defaults", help="Short for brokers --entity-default.")
    ] = False,
    broker_logger: Annotated[str | None, typer.Option(help="Short for --entity-type broker-loggers.")] = None,
    user: Annotated[str | None, typer.Option(help="Short for --entity-type users --entity-name.")] = None,
    user_defaults: Annotated[bool, typer.Option("--user-defaults", help="Short for users --entity-default.")] = False,
    client: Annotated[str | None, typer.Option(help="Short for --entity-type clients --entity-name.")] = None,
    client_defaults: Annotated[
        bool, typer.Option("--client-defaults", help="Short for clients --entity-default.")
    ] = False,
    ip: Annotated[str | None, typer.Option(help="Short for --entity-type ips --entity-name.")] = None,
    ip_defaults: Annotated[bool, typer.Option("--ip-defaults", help="Short for ips --entity-default.")] = False,
    group: Annotated[str | None, typer.Option(help="Short for --entity-type groups --entity-name.")] = None,
    client_metrics: Annotated[str | None, typer.Option(help="Short for --entity-type client-metrics.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show and change settings of topics, brokers, loggers, users, clients and addresses, as kafka-configs does.

    Examples:

      barnabas configs --bootstrap-server localhost:9092 --describe --topic flights

      barnabas configs --bootstrap-server localhost:9092 --alter --topic flights --add-config retention.ms=3600000

      barnabas configs --bootstrap-server localhost:9092 --alter --user alice
      --add-config 'SCRAM-SHA-512=[password=secret],producer_byte_rate=1048576'
    """
    action = exactly_one({"--describe": describe_, "--alter": alter_})
    order: list[str] = ctx.meta.get(_ORDER, [])
    entities = entities_of(
        entity_type or [],
        entity_name or [],
        entity_default,
        default_first=order[:1] == ["entity_default"],
        short=[
            ("topics", topic, False),
            ("brokers", broker, broker_defaults),
            ("broker-loggers", broker_logger, False),
            ("users", user, user_defaults),
            ("clients", client, client_defaults),
            ("ips", ip, ip_defaults),
            ("groups", group, False),
            ("client-metrics", client_metrics, False),
        ],
    )
    config = client_config(bootstrap_server, command_config)
    if action == "--describe":
        describe(config, entities, everything=all_, output=output)
        return
    if add_config is not None and add_config_file is not None:
        raise CliError("Give --add-config or --add-config-file, not both.")
    alter(config, entities, parse_changes(add_config, add_config_file, delete_config), output)
