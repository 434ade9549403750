"""`barnabas connectors logs`: how much workers say, logger by logger (`/admin/loggers`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer

from barnabas.cli.connectors.options import asks_a_worker
from barnabas.cli.connectors.rest import Rest, Worker, run
from barnabas.cli.tables import Output, OutputFormat, done, show


@asks_a_worker
def logs(
    worker: Worker,
    logger: Annotated[str | None, typer.Argument(help="A logger and all below it; root for all.")] = None,
    level: Annotated[str | None, typer.Argument(help="TRACE, DEBUG, INFO, WARN, ERROR ...: from now on.")] = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="On every worker of the group.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the levels of a worker's loggers, or set one until the worker ends.

    Workers write their logs where they run; this says how much. Why a task failed is in `barnabas connectors status`.

    Examples:

      barnabas connectors logs

      barnabas connectors logs kafka.connect DEBUG --everywhere
    """

    async def look(rest: Rest) -> list[dict[str, Any]]:
        found = await (rest.get("/admin/loggers") if logger is None else rest.get(path))
        levels = found if logger is None else {logger: found}
        return [
            {"logger": name, "level": said["level"], "changed": _moment(said.get("last_modified"))}
            for name, said in sorted(levels.items())
        ]

    async def change(rest: Rest) -> list[str]:
        wanted = {"level": (level or "").upper()}
        scope = "cluster" if everywhere else "worker"
        return await rest.ask("PUT", path, wanted, scope=scope) or []

    path = f"/admin/loggers/{quote(logger or '', safe='')}"
    if level is None:
        show(run(worker, look), output, empty="No logger has a level of its own.")
        return
    changed = run(worker, change)
    where = "every worker of the group" if everywhere else worker.url
    done(f"{logger} logs at {level.upper()} on {where}.", output, logger=logger, level=level.upper(), changed=changed)


def _moment(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")
