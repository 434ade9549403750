"""`barnabas connectors create`: from a file, after everything that is wrong with it has been said."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from barnabas.cli.connection import pairs
from barnabas.cli.connectors.options import asks_a_worker
from barnabas.cli.connectors.rest import Rest, RestError, Worker, of, run
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done
from barnabas.model.config import ConfigError, parse_properties

_CLASS: Final = "connector.class"
_STDIN: Final = "-"


@asks_a_worker
def create(
    worker: Worker,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON or properties; - for standard input, as JSON or properties.")
    ],
    name: Annotated[str | None, typer.Option(help="The connector's name, over the file's.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting over the file's; repeatable.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="RUNNING|PAUSED|STOPPED", help="How it begins; not with --replace.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Give a connector that is there this configuration instead.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong with it.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a connector from a file, or say everything that is wrong with its configuration.

    The file is either what the REST API takes, {"name": ..., "config": {...}}, or the settings alone: a JSON object or
    Java properties, with the name among them.

    Examples:

      barnabas connectors create flights.json

      barnabas connectors create file-sink.properties --set tasks.max=4 --dry-run
    """
    if replace and state is not None:
        raise CliError("--state is for new connectors; pause, resume and stop change that of one that is there.")
    config = read_config(file)
    config |= pairs(settings, "--set")
    if name is not None:
        config["name"] = name
    called, plugin = config.get("name", "").strip(), config.get(_CLASS)
    if not called:
        raise CliError("The connector has no name: give --name, or `name` in the file.")
    if not plugin:
        raise CliError(f"{_CLASS} is missing: the class of the connector, such as FileStreamSink.")

    async def work(rest: Rest) -> None:
        await _check(rest, plugin, config)
        if dry_run:
            return
        if replace:
            await rest.ask("PUT", of(called, "config"), config)
            return
        initial = {} if state is None else {"initial_state": state.upper()}
        await rest.ask("POST", "/connectors", {"name": called, "config": config} | initial)

    run(worker, work)
    if dry_run:
        done(f"Nothing is wrong with the configuration of {called}.", output, name=called, errors=0)
        return
    message = f"{'Configured' if replace else 'Created'} connector {called}. How it does: "
    done(f"{message}barnabas connectors status {shlex.quote(called)}", output, name=called, replaced=replace)


async def _check(rest: Rest, plugin: str, config: Mapping[str, str]) -> None:
    """CliError with all that is wrong, which the worker that was asked found."""
    try:
        found = await rest.ask("PUT", f"/connector-plugins/{quote(plugin, safe='')}/config/validate", config)
    except RestError as e:
        if e.status == 404 or "Failed to find any class" in str(e):
            raise CliError(f"{_CLASS}: {await _other_classes(rest, plugin)}") from None
        raise
    wrong = [(each["value"]["name"], error) for each in found["configs"] for error in each["value"]["errors"]]
    if wrong:
        raise CliError("\n".join([f"The configuration has {len(wrong)} errors:", *(_line(*one) for one in wrong)]))


def _line(key: str, error: str) -> str:
    return f"  {error}" if key in error else f"  {key}: {error}"


async def _other_classes(rest: Rest, plugin: str) -> str:
    known = sorted(each["class"] for each in await rest.get("/connector-plugins"))
    return "\n  ".join([f"This worker has no connector {plugin}. It has:", *known])


def read_config(file: str) -> dict[str, str]:
    """Give the settings that a file holds, the connector's name among them; CliError."""
    try:
        text = sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise CliError(f"{file} cannot be read: {e}") from None
    if not text.lstrip().startswith("{"):
        try:
            return dict(parse_properties(text))
        except ConfigError as e:
            raise CliError(f"{file}: {e}") from None
    try:
        return _flat(json.loads(text))
    except ValueError as e:
        raise CliError(f"{file} is no JSON: {e}") from None


def _flat(found: dict[str, Any]) -> dict[str, str]:
    config = found["config"] if isinstance(found.get("config"), dict) else found
    named = {"name": str(found["name"])} if "name" in found else {}
    return {key: _text(value) for key, value in config.items() if value is not None} | named


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
