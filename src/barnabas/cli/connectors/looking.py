"""`barnabas connectors list` and `status`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from barnabas.cli.connectors.options import asks_a_worker
from barnabas.cli.connectors.rest import Rest, Worker, of, run
from barnabas.cli.tables import Output, OutputFormat, show, show_json


async def everything(rest: Rest) -> Mapping[str, Any]:
    """Give `info` and `status` of every connector; one that has just been made may have no status yet."""
    found: Mapping[str, Any] = await rest.get("/connectors", expand=("info", "status"))
    return found


def summary(name: str, connector: Mapping[str, Any]) -> dict[str, Any]:
    """Give a connector in one row."""
    info, status = connector.get("info", {}), connector.get("status", {})
    tasks = status.get("tasks", [])
    running = sum(task["state"] == "RUNNING" for task in tasks)
    return {
        "name": name,
        "type": info.get("type", status.get("type")),
        "class": info.get("config", {}).get("connector.class"),
        "state": status.get("connector", {}).get("state"),
        "worker": status.get("connector", {}).get("worker_id"),
        "tasks": f"{running}/{len(tasks)} running",
        "failed": sum(task["state"] == "FAILED" for task in tasks),
    }


@asks_a_worker
def list_connectors(worker: Worker, output: Output = OutputFormat.TABLE) -> None:
    """List the group's connectors: what they are, how they do, and how many of their tasks run.

    Examples:

      barnabas connectors list

      barnabas connectors list --url https://worker-1:8443 --user alice --ca ca.pem --output json
    """
    found = run(worker, everything)
    rows = [summary(name, found[name]) for name in sorted(found)]
    show(rows, output, empty="There are no connectors; `barnabas connectors create FILE` makes one.")


@asks_a_worker
def status(
    worker: Worker,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Connectors; all without.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the states of connectors and their tasks, on which workers they are, and why something has failed.

    Examples:

      barnabas connectors status flights
    """

    async def work(rest: Rest) -> list[dict[str, Any]]:
        wanted = names or sorted(await rest.get("/connectors"))
        return [await rest.get(of(name, "status")) for name in wanted]

    found = run(worker, work)
    if output is OutputFormat.JSON:
        show_json(found)
        return
    show(state_rows(found), output, empty="There are no connectors.")
    for said in traces(found):
        typer.echo(said)


def state_rows(statuses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give a row for each connector and each of its tasks."""
    rows = []
    for one in statuses:
        for task, state in [(None, one["connector"]), *((task["id"], task) for task in one["tasks"])]:
            rows.append(
                {
                    "connector": one["name"],
                    "type": one.get("type"),
                    "task": task,
                    "state": state["state"],
                    "worker": state["worker_id"],
                    "version": state.get("version"),
                }
            )
    return rows


def traces(statuses: Sequence[Mapping[str, Any]]) -> list[str]:
    """Give why things have failed, with what to type once it is put right."""
    found = []
    for one in statuses:
        failed = [("connector " + one["name"], one["connector"])]
        failed += [(f"task {task['id']} of {one['name']}", task) for task in one["tasks"]]
        said = [f"{what}:\n{state['trace']}" for what, state in failed if state.get("trace")]
        if said:
            found += said
            found.append(
                f"Once that is put right: barnabas connectors restart {shlex.quote(one['name'])} --tasks --failed"
            )
    return found
