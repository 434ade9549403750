"""A worker of ours with the plain runtime as a process of its own, to be killed: `python -m ... FILE`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from barnabas.client.config import ClientConfig, load_properties_file
from barnabas.connect.config import WorkerConfig
from barnabas.connect.worker import Worker
from barnabas.model.config import format_properties
from tests.connect.plain_runtime import PlainPlugins, PlainRuntime
from tests.connect.workers import PATIENCE_SECONDS

READY = "ready"


@asynccontextmanager
async def worker_process(folder: Path, properties: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Give a worker that has joined its group; it is killed in the end, unless it has been before."""
    file = folder / "worker.properties"
    file.write_text(format_properties(properties))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(file), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while READY.encode() not in (line := await process.stdout.readline()):
                assert line, "the worker has ended"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _main(file: str) -> None:
    properties = load_properties_file(file)
    client = ClientConfig.from_properties({"bootstrap.servers": properties["bootstrap.servers"], "linger.ms": "0"})
    worker = Worker(
        WorkerConfig.from_properties(properties), PlainPlugins(), lambda offsets: PlainRuntime(client, offsets)
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    life = asyncio.create_task(worker.run())
    while not (worker.url and worker.herder.health().ready):  # noqa: ASYNC110 - the parent waits for a line
        await asyncio.sleep(0.01)
    print(READY, worker.url, flush=True)
    await life


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
