"""Watches a client at a cluster that is not ours: its sockets on this machine (Linux), and its records in the topic."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import OffsetSpec
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.model.topic_partition import TopicPartition
from barnabas.reauth.command import ClientProcess
from barnabas.reauth.observation import Records
from barnabas.reauth.outside import Outside
from barnabas.wire.errors import ApiError

LIVES: Final = 4
"""How many sessions' lives a client is watched at most, from its first connection on."""
START_SECONDS: Final = 30.0
READ_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.1
_ESTABLISHED: Final = "01"


async def session_lifetime_ms(config: ClientConfig) -> int:
    """Log in, and give how long the cluster says that the session lasts; 0 for without end."""
    async with Admin(config) as admin:
        return (await admin.cluster.any_channel()).session_lifetime_ms


async def watch(config: ClientConfig, topic: str, lifetime_ms: int, start: Callable[[], ClientProcess]) -> Outside:
    """Run the client, and give what was seen of it; ApiError when the topic cannot be seen."""
    async with Admin(config) as admin:
        partitions = [TopicPartition(topic, p) for p in (await admin.cluster.topic(topic)).partitions]
        begin = await _ends(admin, partitions)
        ports = {node.port for node in admin.cluster.nodes.values()}
        ports |= {int(one.rpartition(":")[2]) for one in config["bootstrap.servers"]}
        opened: dict[str, int] = {}
        arrivals: list[int] = []
        with start() as process:
            began = time.monotonic()
            seen = Outside(lifetime_ms)
            last = sum(begin.values())
            while process.exit_code is None and not seen.outlived:
                await asyncio.sleep(_LOOK_SECONDS)
                sockets = await asyncio.to_thread(lambda: set(_sockets(process.pid, ports)))
                now = sum((await _ends(admin, partitions)).values())
                at_ms = int((time.monotonic() - began) * 1000)
                for socket in sockets:
                    opened.setdefault(socket, at_ms)
                if now > last:
                    arrivals.append(at_ms)
                last = now
                seen = Outside(lifetime_ms, tuple(opened.values()), tuple(arrivals), at_ms)
                if at_ms > (min(opened.values()) + LIVES * lifetime_ms if opened else START_SECONDS * 1000):
                    break
            exit_code, output = process.exit_code, process.output
        records = await _read(config, begin, await _ends(admin, partitions))
    return Outside(lifetime_ms, seen.opened_ms, seen.arrivals_ms, seen.watched_ms, records, exit_code, output)


async def _ends(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    found = {}
    for partition, listed in (await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))).items():
        if isinstance(listed, ApiError):
            raise listed
        found[partition] = listed.offset
    return found


async def _read(config: ClientConfig, begin: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> Records:
    values: list[bytes | None] = []
    positions = {partition: offset for partition, offset in begin.items() if end[partition] > offset}
    async with PartitionFetcher(config) as fetcher:
        fetcher.assign(positions)
        until = time.monotonic() + READ_SECONDS
        while any(fetcher.positions[one] < end[one] for one in positions) and time.monotonic() < until:
            for fetched in await fetcher.fetch(500):
                values += fetched.columns().values
    return Records.of(values)


def _sockets(session: int, ports: set[int]) -> Iterator[str]:
    """Give the names of the established connections to such ports that processes of a session have."""
    inodes = {inode for pid in _processes(session) for inode in _inodes(pid)}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            _, local, remote, state, *more = row.split()
            if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) in ports and more[5] in inodes:
                yield f"{local} {remote}"


def _processes(session: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == session:
                yield int(entry.name)
        except OSError:  # it has ended
            continue


def _inodes(pid: int) -> Iterator[str]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]
