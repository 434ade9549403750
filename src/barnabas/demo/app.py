"""The demonstration from end to end; each step stands in a module of its own.

node -> topic, users and rules -> a stranger is refused -> flights in (while Spark starts) -> Structured Streaming
into Parquet -> every record checked against the source -> report and picture.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from barnabas.client.admin import Admin
from barnabas.client.config import load_properties_file
from barnabas.demo import flights, node, pipeline, principals, produce, report, stranger, verify
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError, DemoNode
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.session import LOCAL, open_session

_POLL_S: Final = 0.2
_EVERY_PARTITION: Final = [TopicPartition(flights.TOPIC, n) for n in range(flights.PARTITIONS)]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose. master: for Spark; first: only so many flights, None for all."""

    folder: Folder
    master: str = LOCAL
    keep_running: bool = False
    fresh: bool = False
    first: int | None = None


def run(settings: Settings, console: Console) -> None:
    """Run it, or resume it; DemoError when a step fails, the folder then holds all that is needed to go on."""
    folder = settings.folder
    if settings.fresh:
        _remove(folder)
    with _bars(console) as bars:
        with bars.step("secured node"):
            running = node.start(folder)
        try:
            _run(settings, running, bars)
            if settings.keep_running:
                _say_how_to_connect(console, running, folder)
        finally:
            if not settings.keep_running:
                with bars.step("node shuts down"):
                    running.stop()


def _run(settings: Settings, running: DemoNode, bars: Bars) -> None:
    folder, console = settings.folder, bars.console
    console.print(f"[bold]Node[/] {running.bootstrap}: SASL_SSL, SCRAM-SHA-512, ACLs on", soft_wrap=True)
    with bars.step("topic, users, rules"):
        principals.prepare(running, folder)
    for user, operation, kind, name in principals.RULES:
        console.print(f"[bold]Rule[/] User:{user} may {operation.name} {kind.name} {name}")
    with bars.step("strangers knock"):
        refusals = stranger.try_both(folder)
    for each in refusals:
        console.print(f"[bold red]Refused[/] {each.who}: {each.answer}\n        [dim]{each.why}[/]", soft_wrap=True)
    spark = _flights_into_lake(settings, bars)
    try:
        _check_and_report(spark, settings, running, bars)
    finally:
        spark.stop()


def _flights_into_lake(settings: Settings, bars: Bars) -> SparkSession:
    """Produce in a thread of its own while Spark starts and reads; give the session when all is in the lake."""
    folder, total = settings.folder, len(flights.flights(settings.first))
    written = bars.counter("flights into Barnabas", total)
    with ThreadPoolExecutor(1, "producer") as pool:
        producing = pool.submit(produce.produce, folder, settings.first, written)
        with bars.step(f"Spark starts ({settings.master})"):
            spark = open_session("barnabas demo", master=settings.master, quiet=True)
        read = bars.counter("flights through Spark", total)
        while True:
            all_written = producing.done()
            query = pipeline.start(spark, reader_options(folder), folder, total)
            _watch(query, read, producing)
            if all_written:
                break
        before = producing.result()
    if before:
        bars.console.print(f"[bold]Resumed[/] {before:,} flights were in the topic already")
    read(total)
    return spark


def reader_options(folder: Folder) -> Mapping[str, str]:
    """Give what Spark is told: the password stays in its file, and is read where a connection is made."""
    path = folder.client_file(principals.READER)
    settings = load_properties_file(path)
    return {
        f"kafka.{key}": f"${{file:{path}:{key}}}" if key == "sasl.password" else value
        for key, value in settings.items()
    }


def _watch(query: StreamingQuery, read: Counter, producing: Future[int]) -> None:
    """Wait for the end of a run that takes what is there, and show how far it is."""
    while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # seconds may be a fraction
        progress = query.lastProgress
        if progress is not None and progress.sources and (ends := _end_offsets(progress.sources[0].endOffset)):
            read(sum(ends))
        if producing.done():
            producing.result()  # its failure is the one to show


def _end_offsets(text: str | None) -> list[int]:
    return [] if not text or text == "null" else pipeline.end_offsets(text)


def _check_and_report(spark: SparkSession, settings: Settings, running: DemoNode, bars: Bars) -> None:
    console, folder, source = bars.console, settings.folder, flights.flights(settings.first)
    with bars.step("every record against the source"):
        found = pipeline.lake(spark, folder).select("flight_id", *flights.COLUMNS).toPandas()
        verdict = verify.compare(found, source)
    if not verdict.exactly_once:
        raise DemoError(f"the lake is not what was sent: {verdict}")
    console.print(f"[bold green]Exactly once[/] {verdict.arrived:,} of {verdict.sent:,} flights, none changed")
    lag = asyncio.run(_lag(running, len(source)))
    console.print(f"[bold]Group[/] {principals.GROUP} has a lag of {lag}")
    with bars.step("report"):
        delays = pipeline.delays(pipeline.lake(spark, folder)).toPandas()
        report.picture(delays, folder.picture)
    console.print(report.table(delays))
    console.print(f"[bold]Lake[/] {folder.lake}, by month   [bold]Picture[/] {folder.picture}", soft_wrap=True)


async def _lag(running: DemoNode, total: int) -> int:
    async with Admin(running.admin) as admin:
        committed = await admin.group_offsets(principals.GROUP, _EVERY_PARTITION)
    return total - sum(each.offset for each in committed.values())


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
    for path in (folder.node, folder.lake, folder.checkpoint, folder.root / "clients"):
        shutil.rmtree(path, ignore_errors=True)
    for path in (folder.ready_file, folder.node_log, folder.picture):
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Counter:
    """A bar that shows how many of a known number are done; called with the number."""

    progress: Progress
    task: int

    def __call__(self, done: int) -> None:
        self.progress.update(self.task, completed=done)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Bars:
    """The progress shown beneath what is printed."""

    progress: Progress

    @property
    def console(self) -> Console:
        """Give where to print, above the bars."""
        return self.progress.console

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show a step of unknown length while it runs."""
        task = self.progress.add_task(name, total=None)
        started = time.monotonic()
        yield
        self.progress.update(task, total=1, completed=1, description=f"{name} ({time.monotonic() - started:.1f} s)")

    def counter(self, name: str, total: int) -> Counter:
        """Show a step that counts."""
        return Counter(self.progress, self.progress.add_task(name, total=total))


@contextmanager
def _bars(console: Console) -> Iterator[Bars]:
    with Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        yield Bars(progress)
