"""`barnabas connectors offsets get | alter | reset`: where connectors are, and moving them (KIP-875)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli.connectors.options import asks_a_worker
from barnabas.cli.connectors.rest import Rest, Worker, of, run
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done, show, show_json

Name = Annotated[str, typer.Argument(help="The connector.")]


@asks_a_worker
def get(worker: Worker, name: Name, output: Output = OutputFormat.TABLE) -> None:
    """Show where a connector is: a sink in each partition it reads, a source by what it keeps for itself.

    Examples:

      barnabas connectors offsets get flights

      barnabas connectors offsets get flights --output json > offsets.json
    """

    async def work(rest: Rest) -> dict[str, Any]:
        found: dict[str, Any] = await rest.get(of(name, "offsets"))
        return found

    found = run(worker, work)
    if output is OutputFormat.JSON:
        show_json(found)
        return
    show([_row(each) for each in found["offsets"]], output, empty=f"Connector {name} has no offsets yet.")


def _row(each: dict[str, Any]) -> dict[str, Any]:
    partition, offset = each["partition"], each["offset"]
    if partition.keys() == {"kafka_topic", "kafka_partition"}:
        position = None if offset is None else offset.get("kafka_offset")
        return {"topic": partition["kafka_topic"], "partition": partition["kafka_partition"], "offset": position}
    return {"partition": partition, "offset": offset}


@asks_a_worker
def alter(
    worker: Worker,
    name: Name,
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC:PARTITION=OFFSET", help="Of a sink: where to go on; repeatable."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help='What `get --output json` prints, edited: {"offsets": [...]}; null forgets.'),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Move a connector that is stopped.

    Examples:

      barnabas connectors offsets alter flights --to flights:0=1200 --to flights:1=1150

      barnabas connectors offsets alter lines --file offsets.json
    """
    if (file is None) == (not to):
        raise CliError("Say where to go on: --to TOPIC:PARTITION=OFFSET for a sink, or --file JSON.")
    offsets = _read(file) if file is not None else [_sink_offset(text) for text in to or ()]
    _changed(worker, name, "PATCH", {"offsets": offsets}, output)


@asks_a_worker
def reset(worker: Worker, name: Name, output: Output = OutputFormat.TABLE) -> None:
    """Have a connector that is stopped begin again.

    Examples:

      barnabas connectors offsets reset flights
    """
    _changed(worker, name, "DELETE", None, output)


def _changed(worker: Worker, name: str, method: str, body: object, output: OutputFormat) -> None:
    async def work(rest: Rest) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await rest.ask(method, of(name, "offsets"), body)
        except CliError as e:
            if "STOPPED" in str(e):
                raise CliError(
                    f"Connector {name} is not stopped: barnabas connectors stop {shlex.quote(name)}"
                ) from None
            raise
        return answer

    message = run(worker, work)["message"]
    done(f"{message}\nTo go on: barnabas connectors resume {shlex.quote(name)}", output, name=name, answer=message)


def _read(file: Path) -> Sequence[Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise CliError(f"{file} cannot be used: {e}") from None
    offsets = found.get("offsets") if isinstance(found, dict) else found
    if not isinstance(offsets, list) or not offsets:
        raise CliError(f'{file}: want {{"offsets": [{{"partition": {{...}}, "offset": {{...}}}}]}}.')
    return offsets


def _sink_offset(text: str) -> dict[str, Any]:
    partition, _, offset = text.rpartition("=")
    topic, _, number = partition.rpartition(":")
    if not (topic and number.isdecimal() and offset.isdecimal()):
        raise CliError(f"--to {text!r}: want TOPIC:PARTITION=OFFSET.")
    return {
        "partition": {"kafka_topic": topic, "kafka_partition": int(number)},
        "offset": {"kafka_offset": int(offset)},
    }


app = typer.Typer(no_args_is_help=True)
for _name, _function in (("get", get), ("alter", alter), ("reset", reset)):
    app.command(_name)(_function)
