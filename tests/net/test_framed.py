"""Frames in, answers out: order, bounds, and a peer that does not read."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

from barnabas.net.dev_ca import DevCa
from barnabas.net.framed import READ_AHEAD_BYTES, UNSEEN_BYTES, FramedConnection, ReceiveBudget
from barnabas.net.listener import Listener, serve
from barnabas.net.outgoing import Part
from barnabas.net.tls import ServerTls, TlsConfig
from barnabas.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT_S = 60


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@dataclass
class Collector:
    """Keeps what comes; `react` may answer."""

    react: Callable[[FramedConnection, bytes], object] = lambda connection, frame: None
    bound: int = 10_000_000
    frames: list[bytes] = field(default_factory=list)
    connection: FramedConnection | None = None
    reason: str | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def max_frame_bytes(self) -> int:
        return self.bound

    def connected(self, connection: FramedConnection) -> None:
        self.connection = connection
        self.changed.set()

    def frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        assert self.connection is not None
        self.react(self.connection, self.frames[-1])
        self.changed.set()

    def disconnected(self, reason: str) -> None:
        self.reason = reason
        self.changed.set()

    @property
    def transport(self) -> asyncio.Transport:
        assert self.connection is not None
        return self.connection.transport

    async def until(self, wanted: Callable[[], object]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not wanted():
                self.changed.clear()
                await self.changed.wait()

    async def frames_are(self, count: int) -> list[bytes]:
        await self.until(lambda: len(self.frames) >= count)
        return self.frames


@dataclass
class Peer:
    """The other end, whose socket is read only when a test says so."""

    socket: socket.socket

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def receive(self, size: int) -> bytes:
        found = bytearray()
        async with asyncio.timeout(LIMIT_S):
            while len(found) < size:
                piece = await asyncio.get_running_loop().sock_recv(self.socket, size - len(found))
                if not piece:
                    break
                found += piece
        return bytes(found)


async def turns_until(wanted: Callable[[], object]) -> None:
    """Let the loop turn until something holds that nobody reports."""
    async with asyncio.timeout(LIMIT_S):
        while not wanted():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


@asynccontextmanager
async def connected(collector: Collector, budget: ReceiveBudget | None = None) -> AsyncIterator[Peer]:
    """Join a peer to a collector over loopback, with small buffers in the kernel."""
    listener = Listener("127.0.0.1", 0, send_buffer_bytes=16_384, receive_buffer_bytes=16_384)
    listener.listen()
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", listener.port))
        accepted, host = await listener.accept()
        assert host == "127.0.0.1"
        await serve(accepted, collector, budget=budget)
        try:
            yield Peer(client)
        finally:
            assert collector.connection is not None
            collector.connection.abort("the test is over")
            await collector.until(lambda: collector.reason is not None)
            listener.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(test())  # type: ignore[arg-type]


def test_frames_arrive_whole_and_in_order_however_they_are_cut() -> None:
    bodies = [bytes([i]) * size for i, size in enumerate((0, 1, 3, 4, 5, 100, 9_000, 40_000, 2))]
    stream = b"".join(map(framed, bodies))

    async def test() -> None:
        for step in (1, 7, 4096, len(stream)):
            collector = Collector()
            async with connected(collector) as peer:
                for begin in range(0, len(stream), step) if step > 1 else range(200):
                    await peer.send(stream[begin : begin + step])
                    if step == 1:
                        await asyncio.sleep(0)
                if step == 1:
                    await peer.send(stream[200:])
                assert await collector.frames_are(len(bodies)) == bodies

    run(test)


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
def test_a_frame_of_an_impossible_size_ends_the_connection(size: int) -> None:
    async def test() -> None:
        collector = Collector(bound=1_000)
        async with connected(collector) as peer:
            await peer.send(framed(b"fine") + size.to_bytes(4, "big", signed=True) + b"x" * 100)
            await collector.until(lambda: collector.reason is not None)
            assert collector.frames == [b"fine"]
            assert f"frame of {size} bytes; at most 1000" in str(collector.reason)

    run(test)


def test_memory_is_taken_for_what_has_come_and_not_for_what_was_announced() -> None:
    body = os.urandom(3_000_000)
    stream = framed(body)

    async def test() -> None:
        collector = Collector()
        collector.connection = FramedConnection(collector, asyncio.get_running_loop(), tls=False)
        come = 0
        while come < len(stream):
            room = collector.connection.get_buffer(-1)
            assert come + len(room) <= max(UNSEEN_BYTES, 4 * come)
            piece = stream[come : come + min(len(room), 5_000 if come else 4)]
            room[: len(piece)] = piece
            collector.connection.buffer_updated(len(piece))
            come += len(piece)
        assert collector.frames == [body]

    run(test)


def test_a_receiver_that_cannot_make_sense_of_a_frame_ends_the_connection() -> None:
    def refuse(connection: FramedConnection, frame: bytes) -> None:
        raise ProtocolError("no sense in it")

    async def test() -> None:
        collector = Collector(refuse)
        async with connected(collector) as peer:
            await peer.send(framed(b"a") + framed(b"b"))
            assert await peer.receive(1) == b""
            assert collector.frames == [b"a"]
            await collector.until(lambda: collector.reason == "no sense in it")

    run(test)


def test_a_held_connection_delivers_nothing_and_reads_ahead_within_bounds() -> None:
    bodies = [i.to_bytes(4, "big") * 2_000 for i in range(1_000)]

    async def test() -> None:
        collector = Collector(lambda connection, frame: connection.hold() if len(collector.frames) == 3 else None)
        async with connected(collector) as peer:
            sending = asyncio.ensure_future(peer.send(b"".join(map(framed, bodies))))
            await collector.frames_are(3)
            connection = collector.connection
            assert connection is not None
            await turns_until(lambda: not connection.transport.is_reading())
            assert len(collector.frames) == 3
            assert not sending.done()
            assert len(connection._buffer) <= 4 * READ_AHEAD_BYTES
            connection.release()
            assert await collector.frames_are(len(bodies)) == bodies
            await sending

    run(test)


def test_a_budget_keeps_further_requests_out_until_room_is_made() -> None:
    async def test() -> None:
        budget = ReceiveBudget(100)
        first, second = Collector(), Collector()
        async with connected(first, budget) as large, connected(second, budget) as small:
            await large.send((5_000).to_bytes(4, "big") + b"a" * 1_000)
            await turns_until(lambda: budget.left < 0)
            await small.send(framed(b"waits"))
            assert second.connection is not None
            await turns_until(lambda: not second.transport.is_reading())
            assert not second.frames
            await large.send(b"a" * 4_000)
            assert await second.frames_are(1) == [b"waits"]
            assert budget.left == 100

    run(test)


def test_who_waits_for_the_budget_and_leaves_takes_nothing_along() -> None:
    async def test() -> None:
        budget = ReceiveBudget(100)
        first, second, third = Collector(), Collector(), Collector()
        async with connected(first, budget) as large, connected(third, budget) as other:
            await large.send((5_000).to_bytes(4, "big") + b"a")
            await turns_until(lambda: budget.left < 0)
            async with connected(second, budget) as small:
                await small.send(framed(b"waits"))
                assert second.connection is not None
                await turns_until(lambda: not second.transport.is_reading())
            await large.send(b"a" * 4_999)
            await other.send(framed(b"served"))
            assert await third.frames_are(1) == [b"served"]
            assert budget.left == 100

    run(test)


def test_a_peer_that_does_not_read_is_not_served_further() -> None:
    answer = framed(b"x" * 1_000_000)

    async def test() -> None:
        collector = Collector(lambda connection, frame: connection.send([answer]))
        async with connected(collector) as peer:
            await peer.send(framed(b"one") + framed(b"two") + framed(b"three"))
            await collector.frames_are(1)
            await asyncio.sleep(0.05)
            assert len(collector.frames) == 1
            assert await peer.receive(3 * len(answer)) == 3 * answer
            assert collector.frames == [b"one", b"two", b"three"]

    run(test)


def test_what_was_answered_goes_out_before_the_connection_closes() -> None:
    answer = framed(b"x" * 1_000_000)

    def last(connection: FramedConnection, frame: bytes) -> None:
        connection.send([answer])
        connection.close("that was all")

    async def test() -> None:
        collector = Collector(last)
        async with connected(collector) as peer:
            await peer.send(framed(b"one") + framed(b"two"))
            assert await peer.receive(2 * len(answer)) == answer
            await collector.until(lambda: collector.reason is not None)
            assert (collector.frames, collector.reason) == ([b"one"], "that was all")

    run(test)


@dataclass
class Region:
    """A stretch of a real file."""

    fd: int
    position: int
    length: int

    def fileno(self) -> int:
        return self.fd

    def read(self) -> bytes:
        return os.pread(self.fd, self.length, self.position)

    def __len__(self) -> int:
        return self.length


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    data = os.urandom(3_500_000)
    (tmp_path / "segment").write_bytes(data)
    return data


def answer_of(fd: int, content: bytes) -> tuple[list[Part], bytes]:
    """Give parts that mix bytes with stretches small and large, and what they must come out as."""
    stretches = [(10, 100), (5_000, 20_000), (0, len(content)), (3_000_000, 1)]
    parts: list[Part] = [b"head"]
    for position, length in stretches:
        parts += [Region(fd, position, length), b"between"]
    expected = b"head" + b"".join(content[p : p + n] + b"between" for p, n in stretches)
    return parts, expected


class Cold:
    """Stands for `os.preadv` where the page cache has nothing: each place must be read by a thread first."""

    def __init__(self, partly: bool = False) -> None:
        self.asked = 0
        self.partly = partly
        self._real = os.preadv

    def __call__(self, fd: int, buffers: list[bytearray], position: int, flags: int = 0) -> int:
        self.asked += 1
        if self.partly and self.asked % 2:
            return self._real(fd, [memoryview(buffers[0])[: max(1, len(buffers[0]) // 3)]], position, flags)
        raise BlockingIOError


@pytest.mark.parametrize("cache", ["warm", "cold", "partly"])
def test_stretches_of_files_go_out_among_bytes(
    tmp_path: Path, content: bytes, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = Cold(partly=cache == "partly")
    if cache != "warm":
        monkeypatch.setattr(os, "preadv", cold)
    fd = os.open(tmp_path / "segment", os.O_RDONLY)
    parts, expected = answer_of(fd, content)

    async def test() -> None:
        collector = Collector(lambda connection, frame: connection.send(parts))
        async with connected(collector) as peer:
            await peer.send(framed(b"one") + framed(b"two"))
            assert await peer.receive(2 * len(expected)) == 2 * expected
        assert (cold.asked > 0) is (cache != "warm")

    try:
        run(test)
    finally:
        os.close(fd)


@pytest.mark.parametrize("cache", ["warm", "cold", "partly"])
def test_stretches_of_files_go_out_by_tls(
    tmp_path: Path, content: bytes, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cache != "warm":
        monkeypatch.setattr(os, "preadv", Cold(partly=cache == "partly"))
    authority = DevCa.create()
    authority.save(tmp_path / "ca.key.pem", tmp_path / "ca.pem")
    (tmp_path / "server.pem").write_bytes(authority.issue_server().store)
    tls = ServerTls(
        TlsConfig.parse({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem")})
    )
    fd = os.open(tmp_path / "segment", os.O_RDONLY)
    parts, expected = answer_of(fd, content)

    async def test() -> None:
        collector = Collector(lambda connection, frame: connection.send(parts))
        listener = Listener("127.0.0.1", 0, send_buffer_bytes=16_384)
        listener.listen()
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", listener.port))
        opening = asyncio.ensure_future(
            asyncio.open_connection(sock=client, ssl=trust, server_hostname="127.0.0.1", limit=65_536)
        )
        accepted, _ = await listener.accept()
        await serve(accepted, collector, tls=tls)
        reader, writer = await opening
        writer.write(framed(b"one") + framed(b"two"))
        await collector.frames_are(1)
        # The peer reads nothing yet: the second request waits, and no more than some chunks are in memory.
        await asyncio.sleep(0.05)
        assert collector.frames == [b"one"]
        assert collector.connection is not None
        assert collector.connection.transport.get_write_buffer_size() < 2_000_000
        async with asyncio.timeout(LIMIT_S):
            assert await reader.readexactly(2 * len(expected)) == 2 * expected
        assert collector.frames == [b"one", b"two"]
        writer.close()
        await collector.until(lambda: collector.reason is not None)
        listener.close()

    try:
        run(test)
    finally:
        os.close(fd)


def test_a_file_cut_short_ends_the_connection(tmp_path: Path, content: bytes) -> None:
    fd = os.open(tmp_path / "segment", os.O_RDONLY)

    async def test() -> None:
        region = Region(fd, len(content) - 30_000, 60_000)
        collector = Collector(lambda connection, frame: connection.send([b"head", region]))
        async with connected(collector) as peer:
            await peer.send(framed(b"one"))
            await peer.receive(1_000_000)
            await collector.until(lambda: collector.reason is not None)
            assert "the file ends" in str(collector.reason)

    try:
        run(test)
    finally:
        os.close(fd)
