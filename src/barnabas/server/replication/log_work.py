"""The work on logs that goes on beside the requests: retention, compaction, flushing, checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import structlog

from barnabas.server.config import NodeConfig
from barnabas.storage.cleaner import CleanerSettings
from barnabas.storage.log_dirs import LogDirs

log = structlog.get_logger("kafka.log.work")

DELETION_INTERVAL_MS: Final = 1_000
MAX_FLUSH_INTERVAL_MS: Final = 1_000
BYTES_PER_KEY: Final = 24
"""What a key takes of `log.cleaner.dedupe.buffer.size`, as Kafka counts."""
LOAD_FACTOR: Final = 0.9


class Pass(NamedTuple):
    """Something that is done again and again, so often."""

    name: str
    interval_ms: int
    run: Callable[[], object]


def passes(config: NodeConfig, log_dirs: LogDirs) -> list[Pass]:
    """Give the schedule of a node."""
    every = config.values
    found = [
        Pass("retention", every["log.retention.check.interval.ms"], log_dirs.retention_pass),
        Pass("deletion", DELETION_INTERVAL_MS, log_dirs.deletion_pass),
        Pass("flush", min(every["log.flush.scheduler.interval.ms"], MAX_FLUSH_INTERVAL_MS), log_dirs.flush_pass),
        Pass("checkpoint", every["replica.high.watermark.checkpoint.interval.ms"], log_dirs.checkpoint_pass),
    ]
    if every["log.cleaner.enable"] and every["log.cleaner.threads"] > 0:
        settings = CleanerSettings(max_keys=int(every["log.cleaner.dedupe.buffer.size"] / BYTES_PER_KEY * LOAD_FACTOR))
        found.append(Pass("clean", every["log.cleaner.backoff.ms"], lambda: log_dirs.clean_pass(settings)))
    return found


class LogWork:
    """Runs the passes, each by its own clock, on threads of their own."""

    def __init__(self, schedule: list[Pass], first_ms: int) -> None:
        self._schedule = schedule
        self._first_ms = first_ms
        self._threads = ThreadPoolExecutor(max(1, len(schedule)), thread_name_prefix="log-work")

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in self._schedule:
                    tasks.create_task(self._repeat(one), name=one.name)
        finally:
            self._threads.shutdown(wait=True)

    async def _repeat(self, one: Pass) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(min(self._first_ms, one.interval_ms) / 1000)
        while True:
            await loop.run_in_executor(self._threads, one.run)
            await asyncio.sleep(one.interval_ms / 1000)
