"""The demonstration from end to end; each step stands in a module of its own.

node -> topic, users and rules -> two Connect workers start -> strangers are refused -> flights in, and by a connector
on both workers into Parquet -> one worker is killed half-way, the other takes over -> every record checked against the
source -> report and picture.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from rich.console import Console

from barnabas.demo import flights, lake, node, principals, report, steps, stranger, verify, workers
from barnabas.demo.filling import Filling, batch_records
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError, DemoNode
from barnabas.demo.steps import Steps
from barnabas.spark.session import LOCAL


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose. master: for the workers' Spark; first: only so many flights, None for all."""

    folder: Folder
    master: str = LOCAL
    keep_running: bool = False
    fresh: bool = False
    first: int | None = None


def run(settings: Settings, console: Console) -> None:
    """Run it, or resume it; DemoError when a step fails, the folder then holds all that is needed to go on."""
    folder = settings.folder
    workers.end_earlier(folder)
    if settings.fresh:
        _remove(folder)
    with steps.shown(console) as shown:
        with shown.step("secured node"):
            running = node.start(folder)
        try:
            _run(settings, running, shown)
            if settings.keep_running:
                _say_how_to_connect(console, running, folder)
        finally:
            if not settings.keep_running:
                with shown.step("node shuts down"):
                    running.stop()


def _run(settings: Settings, running: DemoNode, shown: Steps) -> None:
    folder, console = settings.folder, shown.console
    console.print(f"[bold]Node[/] {running.bootstrap}: SASL_SSL, SCRAM-SHA-512, ACLs on", soft_wrap=True)
    with shown.step("topic, users, rules"):
        principals.prepare(running, folder)
    for rule in principals.RULES:
        console.print(f"[bold]Rule[/] {rule}", soft_wrap=True)
    total = len(flights.flights(settings.first))
    with workers.running(folder, settings.master, batch_records(total)) as both:
        with shown.step("strangers knock"):
            refusals = stranger.try_both(folder)
        for each in refusals:
            console.print(f"[bold red]Refused[/] {each.who}: {each.answer}\n        [dim]{each.why}[/]", soft_wrap=True)
        filling = Filling(folder, running, both, shown, total)
        filling.run()
        both.end()
        _check_and_report(settings, filling.lag(), shown)


def _check_and_report(settings: Settings, lag: int, shown: Steps) -> None:
    console, folder, source = shown.console, settings.folder, flights.flights(settings.first)
    with shown.step("every record against the source"):
        found = lake.read(folder)
        verdict = verify.compare(found, source)
    if not verdict.exactly_once:
        raise DemoError(f"the lake is not what was sent: {verdict}; --fresh begins again from nothing")
    console.print(f"[bold green]Exactly once[/] {verdict.arrived:,} of {verdict.sent:,} flights, none changed")
    console.print(f"[bold]Group[/] {principals.GROUP} has a lag of {lag}")
    with shown.step("report"):
        delays = report.delays(found)
        report.picture(delays, folder.picture)
    console.print(report.table(delays))
    console.print(f"[bold]Lake[/] {folder.lake}, by month   [bold]Picture[/] {folder.picture}", soft_wrap=True)


def _say_how_to_connect(console: Console, running: DemoNode, folder: Folder) -> None:
    running.process = None
    console.print(
        f"[bold]The node keeps running[/] (process {running.pid}); look around with\n"
        f"  barnabas groups --bootstrap-server {running.bootstrap} --command-config {running.admin_file} "
        f"--describe --group {principals.GROUP}\n"
        f"  client settings of {principals.READER}: {folder.client_file(principals.READER)}\n"
        f"  stop it: kill {running.pid}",
        soft_wrap=True,
    )


def _remove(folder: Folder) -> None:
    """Delete what an earlier run made, and nothing else that may lie there."""
    for path in (folder.node, folder.lake, folder.workers, folder.root / "clients"):
        shutil.rmtree(path, ignore_errors=True)
    for path in (folder.ready_file, folder.node_log, folder.picture):
        path.unlink(missing_ok=True)
