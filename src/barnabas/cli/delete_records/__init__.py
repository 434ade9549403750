"""`barnabas delete-records`: kafka-delete-records with its flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, report_failures, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError


def command(
    offset_json_file: Annotated[
        Path, typer.Option(metavar="FILE", help="What to delete: partitions, each with the first offset to keep.")
    ],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete the records of partitions before an offset, as kafka-delete-records does.

    The file: {"partitions": [{"topic": "flights", "partition": 0, "offset": 100}], "version": 1}; an offset of -1
    deletes everything up to the high watermark.

    Examples:

      barnabas delete-records --bootstrap-server localhost:9092 --offset-json-file delete.json
    """
    before = parse_offsets(offset_json_file)
    config = client_config(bootstrap_server, command_config)

    async def work(admin: Admin) -> dict[TopicPartition, int | ApiError]:
        return await admin.delete_records(before)

    results = run_admin(config, work, needs="Delete on the topics")
    report_failures(
        {p: r if isinstance(r, ApiError) else None for p, r in results.items()}, config, "Delete on the topic"
    )
    rows = [{"topic": p.topic, "partition": p.partition, "low_watermark": low} for p, low in sorted(results.items())]
    show(rows, output)


def parse_offsets(path: Path) -> dict[TopicPartition, int]:
    """Give what a file in Kafka's form says; CliError when it is not of that form or names a partition twice."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise CliError(f"Cannot read {path}: {e.strerror}.") from None
    try:
        document: dict[str, Any] = json.loads(text)
        rows = [(TopicPartition(p["topic"], int(p["partition"])), int(p["offset"])) for p in document["partitions"]]
    except (ValueError, KeyError, TypeError):
        raise CliError(
            f"{path} is not of the form "
            '{"partitions": [{"topic": "T", "partition": 0, "offset": 100}], "version": 1}.'
        ) from None
    if document.get("version", 1) != 1:
        raise CliError(f"{path} has version {document['version']}, only 1 is known.")
    before = dict(rows)
    if len(before) != len(rows):
        raise CliError(f"{path} names a partition twice.")
    return before
