"""`barnabas log-dirs`: kafka-log-dirs with its flags."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from barnabas.cli.connection import CommandConfig, client_config, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show, show_json
from barnabas.client.admin import Admin
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsResult


def command(
    bootstrap_server: Annotated[
        str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT", help="Where the cluster is.")
    ] = None,
    command_config: CommandConfig = None,
    describe: Annotated[bool, typer.Option("--describe", help="Show the directories.")] = False,
    topic_list: Annotated[str | None, typer.Option(metavar="T,T", help="Only partitions of these topics.")] = None,
    broker_list: Annotated[str | None, typer.Option(metavar="ID,ID", help="Only these brokers.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what lies in the brokers' log directories, as kafka-log-dirs does.

    Examples:

      barnabas log-dirs --bootstrap-server localhost:9092 --describe --topic-list flights
    """
    if not describe:
        raise CliError("Say what to do: --describe.")
    topics = {t.strip() for t in (topic_list or "").split(",") if t.strip()}
    brokers = _brokers(broker_list) if broker_list is not None else None
    config = client_config(bootstrap_server, command_config)

    async def work(admin: Admin) -> dict[int, list[DescribeLogDirsResult]]:
        live = [n.id for n in await admin.nodes()]
        missing = [b for b in brokers or () if b not in live]
        if missing:
            raise CliError(f"There is no live broker {missing[0]}; there are {', '.join(map(str, live))}.")
        return await admin.describe_log_dirs(brokers)

    found = run_admin(config, work, needs="Describe on the cluster")
    document = {broker: [_directory(result, topics) for result in results] for broker, results in sorted(found.items())}
    if output is OutputFormat.JSON:
        rows = [{"broker": broker, "log_dirs": directories} for broker, directories in document.items()]
        show_json({"version": 1, "brokers": rows})
        return
    for broker, directories in document.items():
        for directory in directories:
            usable = f", {directory['usable_bytes']:,} bytes free" if directory["usable_bytes"] >= 0 else ""
            state = f": {directory['error']}" if directory["error"] else usable
            typer.echo(f"Broker {broker}, {directory['log_dir']}{state}")
            show(directory["partitions"], output, empty="  nothing")


def _directory(result: DescribeLogDirsResult, topics: set[str]) -> dict[str, Any]:
    code = ErrorCode(result.error_code)
    return {
        "log_dir": result.log_dir,
        "error": None if code == ErrorCode.NONE else code.name,
        "total_bytes": result.total_bytes,
        "usable_bytes": result.usable_bytes,
        "partitions": [
            {
                "partition": f"{topic.name}-{p.partition_index}",
                "size": p.partition_size,
                "offset_lag": p.offset_lag,
                "is_future": p.is_future_key,
            }
            for topic in sorted(result.topics, key=lambda t: t.name)
            for p in sorted(topic.partitions, key=lambda p: p.partition_index)
            if not topics or topic.name in topics
        ],
    }


def _brokers(text: str) -> list[int]:
    try:
        return [int(b) for b in text.split(",")]
    except ValueError:
        raise CliError(f"--broker-list {text!r}: want broker ids separated by commas.") from None
