"""A process that a crash test kills: runs a controller and prints what was answered.

`python -m tests.server.metadata_writer DIRECTORY START` prints `have N...` once, the numbers found at the start, and
then `ack N` for every write that was answered, with many under way at a time.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from itertools import count
from pathlib import Path

import structlog

from barnabas.net.clock import SystemClock
from barnabas.server.controller import Controller

from .controllers import configs_of, node_config, setting

UNDER_WAY = 16


async def main(directory: Path, start: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    config = node_config(
        directory,
        metadata__log__max__record__bytes__between__snapshots="5000",
        metadata__max__retention__bytes="0",
        internal__metadata__log__segment__bytes="16384",
    )
    controller = Controller(config, SystemClock())
    running = asyncio.create_task(controller.run())
    image = await controller.caught_up()
    print("have", *configs_of(image), flush=True)
    numbers = count(start)

    async def write() -> None:
        while True:
            n = next(numbers)
            await controller.write(setting(str(n), "x"))
            print("ack", n, flush=True)

    async with asyncio.TaskGroup() as writers:
        for _ in range(UNDER_WAY):
            writers.create_task(write())
    await running


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
