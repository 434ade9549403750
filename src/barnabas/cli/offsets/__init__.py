"""`barnabas offsets`: kafka-get-offsets with its flags."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.cli.topics.selection import matching
from barnabas.client.admin import Admin
from barnabas.client.admin.topics import ListedOffset, OffsetSpec
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError

SPECS: Final = {spec.name.lower().replace("_", "-"): spec for spec in OffsetSpec}


def command(
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    topic: Annotated[str | None, typer.Option(help="A topic, or a regular expression; all topics without.")] = None,
    topic_partitions: Annotated[
        str | None, typer.Option(metavar="TOPIC:0-3,...", help="Topics (regular expressions) with partitions.")
    ] = None,
    partitions: Annotated[str | None, typer.Option(metavar="0,1,...", help="Only these partitions.")] = None,
    time: Annotated[str, typer.Option(help=f"A timestamp in ms, or one of {', '.join(SPECS)} (-1 to -6).")] = "latest",
    exclude_internal_topics: Annotated[
        bool, typer.Option("--exclude-internal-topics", help="Leave internal topics out.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show where logs begin, end, or what stood in them at a time, as kafka-get-offsets does.

    Examples:

      barnabas offsets --bootstrap-server localhost:9092 --topic flights

      barnabas offsets --bootstrap-server localhost:9092 --topic flights --time earliest --output json
    """
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise CliError("--topic-partitions says it all: leave --topic and --partitions out.")
    timestamp = parse_time(time)
    numbers = _parse_numbers(partitions) if partitions is not None else None
    takes = _partition_filter(topic_partitions) if topic_partitions is not None else None
    config = client_config(bootstrap_server, command_config)

    async def work(admin: Admin) -> dict[TopicPartition, ListedOffset | ApiError]:
        known = await admin.topics()
        names = matching(known, topic, exclude_internal=exclude_internal_topics)
        wanted = [TopicPartition(n, p) for n in names for p in known[n].partitions]
        if numbers is not None:
            wanted = [p for p in wanted if p.partition in numbers]
        if takes is not None:
            wanted = [p for p in wanted if takes(p)]
        if not wanted:
            raise CliError("No partition matches, or you may not see it.")
        return await admin.list_offsets(dict.fromkeys(wanted, timestamp))

    found = run_admin(config, work, needs="Describe on the topics")
    rows = []
    for partition, listed in sorted(found.items(), key=lambda item: item[0]):
        if isinstance(listed, ApiError):
            typer.echo(f"{partition}: {listed.message}", err=True)
        elif listed.offset >= 0 or timestamp < 0:
            rows.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": listed.offset if listed.offset >= 0 else None,
                }
            )
    show(rows, output, empty="No record is that new.")
    if any(isinstance(listed, ApiError) for listed in found.values()):
        raise CliError("Some partitions could not be asked.")


def parse_time(text: str) -> int:
    """Give the timestamp that --time says; CliError when it says none."""
    if text.lower() in SPECS:
        return SPECS[text.lower()]
    try:
        timestamp = int(text)
    except ValueError:
        timestamp = min(OffsetSpec) - 1
    if timestamp < min(OffsetSpec):
        raise CliError(f"--time {text}: want a timestamp in ms, or one of {', '.join(SPECS)}.")
    return timestamp


def _parse_numbers(text: str) -> set[int]:
    try:
        return {int(part) for part in text.split(",")}
    except ValueError:
        raise CliError(f"--partitions {text!r}: want numbers separated by commas.") from None


def _partition_filter(text: str) -> Callable[[TopicPartition], bool]:
    """Understand `topic:1`, `topic:1-3` (3 not included), `topic:2-`, `topic:-4`, `:5`, `topic`, by commas."""
    rules = []
    for rule in text.split(","):
        match = re.fullmatch(r"([^:,]*)(?::(?:(\d+)|(\d+)-(\d*)|-(\d+)))?", rule)
        if match is None:
            raise CliError(f"--topic-partitions {rule!r}: want TOPIC:PARTITION or TOPIC:FROM-TO.")
        name, one, low, high, until = match.groups()
        first = int(one or low or 0)
        end = first + 1 if one else int(high or until) if high or until else None
        rules.append((re.compile(name or ".*"), first, end))

    def takes(partition: TopicPartition) -> bool:
        return any(
            name.fullmatch(partition.topic)
            and first <= partition.partition
            and (end is None or partition.partition < end)
            for name, first, end in rules
        )

    return takes
