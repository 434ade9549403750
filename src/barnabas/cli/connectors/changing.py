"""`barnabas connectors pause | resume | stop | restart | delete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from barnabas.cli.connectors.options import asks_a_worker
from barnabas.cli.connectors.rest import Rest, Worker, of, run
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Connectors.")]


@asks_a_worker
def pause(worker: Worker, names: Names, output: Output = OutputFormat.TABLE) -> None:
    """Have connectors pause: tasks stay where they are, and do nothing.

    Examples:

      barnabas connectors pause flights
    """
    _each(worker, "PUT", names, "pause")
    _told("Paused", names, output)


@asks_a_worker
def resume(worker: Worker, names: Names, output: Output = OutputFormat.TABLE) -> None:
    """Have connectors that were paused or stopped go on.

    Examples:

      barnabas connectors resume flights
    """
    _each(worker, "PUT", names, "resume")
    _told("Resumed", names, output)


@asks_a_worker
def stop(worker: Worker, names: Names, output: Output = OutputFormat.TABLE) -> None:
    """Stop connectors: their tasks are taken away, their configurations and offsets are kept.

    Examples:

      barnabas connectors stop flights
    """
    _each(worker, "PUT", names, "stop")
    _told("Stopped", names, output)


@asks_a_worker
def delete(worker: Worker, names: Names, output: Output = OutputFormat.TABLE) -> None:
    """Delete connectors. Their offsets stay, so that one of the same name goes on where they were.

    Examples:

      barnabas connectors delete flights
    """
    _each(worker, "DELETE", names)
    _told("Deleted", names, output)


@asks_a_worker
def restart(
    worker: Worker,
    name: Annotated[str, typer.Argument(help="The connector.")],
    tasks: Annotated[bool, typer.Option("--tasks", help="Its tasks too.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only what has failed.")] = False,
    task: Annotated[int | None, typer.Option(help="One task alone.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Restart a connector, its tasks with it, or what has failed of them.

    Examples:

      barnabas connectors restart flights --tasks --failed

      barnabas connectors restart flights --task 2
    """
    if task is not None and (tasks or failed):
        raise CliError("--task restarts one task whatever its state; give it alone.")

    async def work(rest: Rest) -> None:
        if task is not None:
            await rest.ask("POST", of(name, "tasks", str(task), "restart"))
            return
        await rest.ask("POST", of(name, "restart"), includeTasks=str(tasks).lower(), onlyFailed=str(failed).lower())

    run(worker, work)
    what = f"task {task} of {name}" if task is not None else f"{name}{' and its tasks' if tasks else ''}"
    only = ", as far as they had failed" if failed else ""
    done(f"Restarting {what}{only}.", output, name=name, task=task, tasks=tasks, only_failed=failed)


def _each(worker: Worker, method: str, names: Sequence[str], *more: str) -> None:
    """Ask for the same of every connector, and say in the end with whom it did not come off."""

    async def work(rest: Rest) -> list[str]:
        refused = []
        for name in names:
            try:
                await rest.ask(method, of(name, *more))
            except CliError as e:
                refused.append(f"{name}: {e}")
        return refused

    if refused := run(worker, work):
        raise CliError("\n".join(refused))


def _told(did: str, names: Sequence[str], output: OutputFormat) -> None:
    done(f"{did} {', '.join(names)}.", output, names=list(names))
