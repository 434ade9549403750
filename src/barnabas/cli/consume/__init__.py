"""`barnabas consume`: kafka-console-consumer with its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, pairs, require, run
from barnabas.cli.consume.formatting import json_lines, text_lines
from barnabas.cli.consume.loop import Wanted, consume
from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat
from barnabas.client.config import ClientConfig

_Pairs = list[str] | None


def command(  # the flags are Kafka's
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    consumer_config: Annotated[
        Path | None, typer.Option("--consumer.config", metavar="FILE", help="The same as --command-config.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="What to read.")] = None,
    include: Annotated[str | None, typer.Option(metavar="REGEX", help="Read every topic that matches.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only this partition.")] = None,
    offset: Annotated[
        str | None, typer.Option(help="With --partition: earliest, latest or a number; -5 is five from the end.")
    ] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start with the oldest record.")] = False,
    max_messages: Annotated[int | None, typer.Option(help="Stop after so many records.")] = None,
    timeout_ms: Annotated[int | None, typer.Option(help="Stop when nothing came for so long.")] = None,
    group: Annotated[str | None, typer.Option(help="Read as a member of this group; without: on one's own.")] = None,
    isolation_level: Annotated[str, typer.Option(help="read_committed or read_uncommitted.")] = "read_uncommitted",
    formatter_property: Annotated[
        _Pairs,
        typer.Option(
            "--formatter-property",
            "--property",
            metavar="KEY=VALUE",
            help="What to print: print.timestamp, print.partition, print.offset, print.epoch, print.headers, "
            "print.key, print.value, key.separator, line.separator, headers.separator, null.literal.",
        ),
    ] = None,
    command_property: Annotated[
        _Pairs,
        typer.Option("--command-property", "--consumer-property", metavar="KEY=VALUE", help="A client setting."),
    ] = None,
    skip_message_on_error: Annotated[
        bool, typer.Option("--skip-message-on-error", help="Go on behind batches that are damaged.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option(help="Text, or a JSON object a line.")] = OutputFormat.TABLE,
) -> None:
    """Print the records of topics as they come, as kafka-console-consumer does. Ctrl-C stops.

    Examples:

      barnabas consume --bootstrap-server localhost:9092 --topic flights --from-beginning --max-messages 10

      barnabas consume --command-config client.properties --topic flights --group reports --output json
    """
    if (topic is None) == (include is None):
        raise CliError("Say what to read: --topic or --include, one of them.")
    if offset is not None and partition is None:
        raise CliError("--offset goes with --partition.")
    if partition is not None:
        require(topic, "--topic", "--partition is a partition of one topic")
    if offset is not None and from_beginning:
        raise CliError("Give --from-beginning or --offset, not both.")
    if group is not None and partition is not None:
        raise CliError("--group shares partitions out: leave --partition out.")
    settings = {"isolation.level": isolation_level} | pairs(command_property, "--command-property")
    if group is not None:
        settings["group.id"] = group
    if from_beginning:
        settings["auto.offset.reset"] = "earliest"
    config = client_config(bootstrap_server, command_config or consumer_config)
    config = ClientConfig.from_properties({**config.properties, **settings})
    formatting = pairs(formatter_property, "--formatter-property")
    printer = json_lines if output is OutputFormat.JSON else text_lines(formatting)
    wanted = Wanted(
        topic=topic,
        include=include,
        partition=partition,
        offset=_offset(offset),
        from_beginning=from_beginning,
        max_messages=max_messages,
        timeout_ms=timeout_ms,
        skip_damaged=skip_message_on_error,
    )
    try:
        count = run(config, lambda: consume(config, wanted, printer), needs="Read on the topics and on the group")
    except KeyboardInterrupt:
        return
    typer.echo(f"Processed a total of {count} messages", err=True)


def _offset(text: str | None) -> int | str:
    if text is None or text.lower() == "latest":
        return "latest"
    if text.lower() == "earliest":
        return "earliest"
    try:
        return int(text)
    except ValueError:
        raise CliError(f"--offset {text!r}: want earliest, latest or a number.") from None
