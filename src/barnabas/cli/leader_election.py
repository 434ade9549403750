"""`barnabas leader-election`: kafka-leader-election with its flags."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, exactly_one, explain, require, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.client.admin.reassignments import ElectionType
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode

_NEEDS: Final = "Alter on the cluster"


class Election(StrEnum):
    """What an election is for, as people write it."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def command(
    election_type: Annotated[
        Election,
        typer.Option(
            case_sensitive=False,
            help="preferred: the first replica leads again; unclean: a replica leads that may lack records.",
        ),
    ],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    admin_config: Annotated[
        Path | None, typer.Option("--admin.config", metavar="FILE", help="Kafka's older name of --command-config.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Elect for one partition of this topic: see --partition.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Its number.")] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="Elect wherever it would change something.")
    ] = False,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Elect for those: {"partitions": [{"topic": "orders", "partition": 1}]}.'),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Elect partition leaders anew, as kafka-leader-election does.

    Examples:

      barnabas leader-election --bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions

      barnabas leader-election --bootstrap-server localhost:9092 --election-type unclean --topic orders --partition 1
    """
    chosen = exactly_one(
        {
            "--topic": topic is not None,
            "--all-topic-partitions": all_topic_partitions,
            "--path-to-json-file": path_to_json_file is not None,
        }
    )
    partitions = None
    if chosen == "--topic":
        partitions = [TopicPartition(topic or "", require(partition, "--partition", "--topic needs it"))]
    elif partition is not None:
        raise CliError("--partition goes with --topic only.")
    elif path_to_json_file is not None:
        partitions = read_partitions(path_to_json_file)
    config = client_config(bootstrap_server, command_config or admin_config)
    kind = ElectionType[election_type.name]
    results = run_admin(config, lambda admin: admin.elect_leaders(kind, partitions), needs=_NEEDS)
    rows: list[dict[str, Any]] = []
    failed = 0
    for where, error in sorted(results.items()):
        if error is None:
            result = "elected"
        elif error.code == ErrorCode.ELECTION_NOT_NEEDED:
            result = "not needed"
        else:
            result = explain(error, config, _NEEDS)
            failed += 1
        rows.append({"partition": str(where), "election": election_type.value, "result": result})
    show(rows, output, empty="No partition can do with an election.")
    if failed:
        raise CliError(f"No leader could be elected for {failed} of {len(rows)} partitions.")


def read_partitions(path: Path) -> list[TopicPartition]:
    """Give the partitions that a JSON file names; CliError when it is not of Kafka's form or names one twice."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        partitions = [TopicPartition(str(p["topic"]), int(p["partition"])) for p in document["partitions"]]
    except OSError as e:
        raise CliError(f"Cannot read {path}: {e.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise CliError(f'{path}: want {{"partitions": [{{"topic": "orders", "partition": 1}}]}}, see --help.') from None
    twice = sorted({str(p) for p in partitions if partitions.count(p) > 1})
    if twice:
        raise CliError(f"{path} names partitions twice: {', '.join(twice)}.")
    return partitions
