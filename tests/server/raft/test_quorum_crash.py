from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.testing.ports import free_ports
from barnabas.wire.metadata_records import decode_metadata_record
from barnabas.wire.record_batch import decode_batch, iter_headers
from barnabas.wire.records.config_record import ConfigRecord

from .quorum_writer import VOTERS, quorum
from .quorums import WAIT_S

ROUNDS = 6


class Controllers:
    """Controllers as processes, and what they have answered."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = free_ports(len(VOTERS))
        self.answered: set[str] = set()
        self._news = asyncio.Condition()
        self._lives = 0
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        for node_id in VOTERS:
            quorum(directory, self.ports).format(node_id)

    async def start(self, *node_ids: int) -> None:
        """Start these; they are up when they know the metadata, which takes a quorum."""
        for node_id in node_ids:
            self._lives += 1
            own = (str(self.directory), str(node_id), str(self._lives), *map(str, self.ports))
            self._processes[node_id] = process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.server.raft.quorum_writer", *own,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            self._readers[node_id] = asyncio.create_task(self._read(process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        # What it had still printed before it died was answered as well.
        while (line := await process.stdout.readline()).endswith(b"\n"):
            if line.startswith(b"ack "):
                async with self._news:
                    self.answered.add(line.decode().split()[1])
                    self._news.notify_all()

    async def more(self, number: int) -> None:
        """Wait until so many more were answered."""
        wanted = len(self.answered) + number
        async with asyncio.timeout(WAIT_S), self._news:
            await self._news.wait_for(lambda: len(self.answered) >= wanted)

    async def kill(self, node_id: int) -> None:
        """Kill one, if it runs."""
        process = self._processes.pop(node_id, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await self._readers.pop(node_id)

    async def stop(self) -> None:
        """Let all stop properly."""
        for node_id in VOTERS:
            process = self._processes.pop(node_id)
            assert process.stdin is not None
            process.stdin.close()
            assert await process.wait() == 0
            await self._readers.pop(node_id)


@contextlib.asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Controllers]:
    controllers = Controllers(directory)
    try:
        yield controllers
    finally:
        for node_id in VOTERS:
            await controllers.kill(node_id)


def log_of(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((directory / "__cluster_metadata-0").glob("*.log")))


def noted(log: bytes) -> set[str]:
    """Give the topics whose configuration the log holds."""
    records = [
        decode_metadata_record(record.value or b"")[0]
        for position, header in iter_headers(log)
        if not header.is_control
        for record in decode_batch(log[position : position + header.size])
    ]
    return {
        r.resource_name for r in records if isinstance(r, ConfigRecord) and r.resource_type == ConfigResourceType.TOPIC
    }


async def level(directory: Path, ports: list[int]) -> int:
    """Run the quorum in this process, without writers, until each has all of the log; gives its end."""
    quiet = quorum(directory, ports)
    try:
        await quiet.start(*VOTERS)
        return await quiet.agree()
    finally:
        await asyncio.gather(*(node.stop() for node in quiet.nodes.values()))


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.cluster
async def test_no_answered_change_is_lost_and_logs_stay_alike_while_controllers_are_killed(tmp_path: Path) -> None:
    rng = Random(11)
    async with running(tmp_path) as controllers:
        await controllers.start(*VOTERS)
        for turn in range(ROUNDS):
            await controllers.more(rng.randrange(1, 300))
            # One, now and then two, and once all of them.
            fallen = VOTERS if turn == ROUNDS // 2 else rng.sample(VOTERS, rng.choice((1, 1, 2)))
            await asyncio.gather(*(controllers.kill(node_id) for node_id in fallen))
            if len(fallen) == 1:
                await controllers.more(rng.randrange(1, 50))
            await controllers.start(*fallen)
        await controllers.more(1)
        await controllers.stop()
    committed = await level(tmp_path, controllers.ports)
    logs = [log_of(tmp_path / str(node_id)) for node_id in VOTERS]
    common = min(logs, key=len)
    assert {log[: len(common)] for log in logs} == {common}
    assert max(header.next_offset for _, header in iter_headers(common)) >= committed
    assert controllers.answered <= noted(common)
    assert all(len(list((tmp_path / str(node_id) / "__cluster_metadata-0").glob("*.log"))) > 2 for node_id in VOTERS)
