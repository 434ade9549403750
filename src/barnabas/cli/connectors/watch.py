"""`barnabas connectors watch`: connectors and tasks as they change, with the lag of sinks."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config
from barnabas.cli.connectors.looking import everything
from barnabas.cli.connectors.options import asks_a_worker
from barnabas.cli.connectors.rest import Rest, Worker, run
from barnabas.cli.errors import CliError
from barnabas.cli.groups.describe import offset_rows
from barnabas.cli.tables import Output, OutputFormat, console
from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.connect.traces import gist
from barnabas.net.client import ChannelError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode

_STYLES: Final = {"RUNNING": "green", "PAUSED": "yellow", "STOPPED": "yellow", "FAILED": "red", "UNASSIGNED": "magenta"}
_NUMBERS: Final = frozenset({"task", "lag"})


@dataclass(slots=True)
class View:
    """What a look came to. trouble: why there is nothing newer, or no lag."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    trouble: str = ""


@asks_a_worker
def watch(
    worker: Worker,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How often to look.")] = 1.0,
    looks: Annotated[int | None, typer.Option(metavar="N", min=1, help="End after so many looks.")] = None,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Watch connectors and tasks: where they are, how they do, and how far sinks lag behind where brokers are named.

    Ctrl-C ends it. With --output json each look is one line.

    Examples:

      barnabas connectors watch

      barnabas connectors watch --bootstrap-server localhost:9092
    """
    brokers = client_config(bootstrap_server, command_config) if bootstrap_server or command_config else None

    async def work(rest: Rest) -> None:
        views = _views(rest, brokers, every, looks)
        if output is OutputFormat.JSON:
            async for view in views:
                typer.echo(json.dumps({"rows": view.rows, "trouble": view.trouble}))
        elif sys.stdout.isatty():
            with Live(console=console(), auto_refresh=False, screen=looks is None) as live:
                async for view in views:
                    live.update(picture(view), refresh=True)
        else:
            async for view in views:
                console().print(picture(view))

    try:
        run(worker, work)
    except KeyboardInterrupt:
        return


async def _views(rest: Rest, brokers: ClientConfig | None, every_s: float, looks: int | None) -> AsyncIterator[View]:
    """Look again and again; once something was seen, a worker that does not answer is waited for."""
    async with AsyncExitStack() as stack:
        admin = None if brokers is None else await stack.enter_async_context(Admin(brokers))
        view, count = View(), 0
        while looks is None or count < looks:
            try:
                view = await _look(rest, admin)
            except CliError as e:
                if count == 0:
                    raise
                view = View(view.rows, str(e))
            count += 1
            yield view
            if count != looks:
                await asyncio.sleep(every_s)


async def _look(rest: Rest, admin: Admin | None) -> View:
    found = await everything(rest)
    view = View()
    lags: Mapping[str, int | None] = {}
    if admin is not None:
        try:
            lags = await _lags(admin, found)
        except (ApiError, ChannelError, RequestTimeoutError) as e:
            view.trouble = f"the lag is not known: {e}"
    for name in sorted(found):
        view.rows += connector_rows(name, found[name], lags.get(name))
    return view


async def _lags(admin: Admin, found: Mapping[str, Any]) -> dict[str, int | None]:
    """Give how many records each sink has still before it; None where nobody knows."""
    lags: dict[str, int | None] = {}
    for name, connector in found.items():
        info = connector.get("info", {})
        if info.get("type") == "sink":
            lags[name] = await _lag(admin, info["config"].get("consumer.override.group.id", f"connect-{name}"))
    return lags


async def _lag(admin: Admin, group: str) -> int | None:
    try:
        rows = await offset_rows(admin, await admin.describe_group(group))
    except ApiError as e:
        if e.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None  # its tasks have not joined yet
        raise
    known = [row["lag"] for row in rows if row["lag"] is not None]
    return sum(known) if known else None


def connector_rows(name: str, connector: Mapping[str, Any], lag: int | None) -> list[dict[str, Any]]:
    """Give a row for a connector and one for each of its tasks."""
    status: Mapping[str, Any] = connector.get("status", {})
    rows = [_row(name, None, status.get("connector", {}), connector.get("info", {}).get("type"), lag)]
    return rows + [_row(name, task["id"], task, None, None) for task in status.get("tasks", ())]


def _row(name: str, task: int | None, state: Mapping[str, Any], kind: str | None, lag: int | None) -> dict[str, Any]:
    return {
        "connector": name,
        "type": kind,
        "task": task,
        "state": state.get("state"),
        "worker": state.get("worker_id"),
        "lag": lag,
        "why": gist(state.get("trace", "")) or None,
    }


def picture(view: View) -> Group:
    """Give the view as a table, and when it was taken."""
    workers = {row["worker"] for row in view.rows if row["worker"]}
    tasks = [row for row in view.rows if row["task"] is not None]
    running = sum(row["state"] == "RUNNING" for row in tasks)
    at = datetime.now().astimezone().strftime("%H:%M:%S")
    connectors = len(view.rows) - len(tasks)
    head = f"{at}  {connectors} connectors, {running} of {len(tasks)} tasks run, on {len(workers)} workers"
    return Group(Text(head), _table(view.rows), Text(view.trouble, "red"))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    keys = [key for key in (rows[0] if rows else ()) if any(row[key] is not None for row in rows)]
    for key in keys:
        made.add_column(key.upper(), justify="right" if key in _NUMBERS else "left", no_wrap=key != "why")
    for row in rows:
        made.add_row(*(_cell(key, row) for key in keys))
    return made


def _cell(key: str, row: Mapping[str, Any]) -> Text:
    value = row[key]
    if key == "connector" and row["task"] is not None:
        value = ""  # told in the line above
    return Text("" if value is None else str(value), _STYLES.get(str(value), "") if key == "state" else "")
