"""Frames of ZooKeeper's protocol in any pieces, and servers that do not keep to it. The server here is a script."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from kazoo.protocol.serialization import Connect, GetData, Ping

from barnabas.core.zookeeper.errors import ConnectionLossError, NoNodeError
from barnabas.net.zookeeper.connection import Connection
from barnabas.net.zookeeper.requests import SetWatches
from barnabas.testing.ports import HOST, free_ports

HELLO = struct.pack("!iiqi16sB", 0, 4000, 7, 16, b"p" * 16, 0)
WATCH = struct.pack("!iqi", -1, -1, 0) + struct.pack("!iii", 3, 3, 2) + b"/a"


def frame(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


def reply(xid: int, body: bytes = b"", error: int = 0, zxid: int = 0) -> bytes:
    return frame(struct.pack("!iqi", xid, zxid, error) + body)


@dataclass
class Script:
    """A server that takes one connection, and says what it is told to."""

    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader
    connection: Connection
    watches: list[tuple[int, str]] = field(default_factory=list)

    async def received(self) -> bytes:
        """Give the next frame that the client has sent."""
        (size,) = struct.unpack("!i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    (port,) = free_ports(1)
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result((reader, writer))

    server = await asyncio.start_server(accept, HOST, port)
    watches: list[tuple[int, str]] = []
    connection = await Connection.open(HOST, port, None, lambda what, path: watches.append((what, path)), 1000)
    reader, writer = await accepted
    yield Script(writer, reader, connection, watches)
    connection.abort("the end")
    await connection.lost
    writer.close()
    server.close()
    await server.wait_closed()


async def greeted(script: Script) -> None:
    hello = asyncio.create_task(script.connection.hello(Connect(0, 0, 4000, 0, b"", False)))
    await script.received()
    script.writer.write(frame(HELLO))
    assert (await hello).session_id == 7


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
async def test_answers_come_in_any_pieces(script: Script, size: int) -> None:
    hello = asyncio.create_task(script.connection.hello(Connect(0, 0, 4000, 0, b"", False)))
    await asyncio.sleep(0)
    order: list[int] = []
    said = frame(HELLO) + reply(1, b"one", zxid=9) + frame(WATCH) + reply(-2) + reply(2, error=-101)
    first, second = GetData("/a", True), GetData("/b", False)
    for at in range(0, len(said), size):
        script.writer.write(said[at : at + size])
        await script.writer.drain()
        if at == 0:
            asked = [
                script.connection.ask(first, lambda code: order.append(code)),
                script.connection.ask(Ping()),
                script.connection.ask(second, lambda code: order.append(code)),
            ]
        await asyncio.sleep(0)
    found = await hello
    assert (found.session_id, found.time_out, found.passwd) == (7, 4000, b"p" * 16)
    assert [await asked[0], await asked[1]] == [b"one", b""]
    with pytest.raises(NoNodeError):
        await asked[2]
    assert order == [0, -101]
    assert script.watches == [(3, "/a")]
    assert script.connection.last_zxid == 9
    assert script.connection.outstanding == 0


async def test_requests_are_numbered_and_go_out_together(script: Script) -> None:
    await greeted(script)
    asked = [script.connection.ask(GetData("/a", False)), script.connection.ask(SetWatches(5, ["/a"], [], ["/b"]))]
    assert (await script.received())[:8] == struct.pack("!ii", 1, 4)
    watches = await script.received()
    assert watches == struct.pack("!iiqi", -8, 101, 5, 1) + b"\x00\x00\x00\x02/a" + bytes(4) + (
        struct.pack("!ii", 1, 2) + b"/b"
    )
    script.writer.write(reply(1, b"x") + reply(-8))
    assert [await one for one in asked] == [b"x", b""]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (struct.pack("!i", 1001), "an answer of 1001 bytes; 1000 are allowed"),
        (struct.pack("!i", -1), "an answer of -1 bytes"),
        (reply(3), "an answer to request 3, which is not the next one"),
        (frame(b"short"), "an answer that is none"),
        (frame(WATCH[:-3]), "an answer that is none"),
        (frame(WATCH[:-1] + b"\xff"), "an answer that is none"),
    ],
)
async def test_who_does_not_keep_to_the_protocol_is_left(script: Script, said: bytes, why: str) -> None:
    await greeted(script)
    asked = script.connection.ask(GetData("/a", False))
    script.writer.write(said + reply(1))
    assert why in await script.connection.lost
    with pytest.raises(ConnectionLossError):
        await asked
    with pytest.raises(ConnectionLossError):
        await script.connection.ask(GetData("/a", False))


@pytest.mark.parametrize("end", [lambda writer: writer.close(), lambda writer: writer.transport.abort()])
async def test_who_hangs_up_is_missed_by_all_who_wait(
    script: Script, end: Callable[[asyncio.StreamWriter], None]
) -> None:
    await greeted(script)
    asked = [script.connection.ask(GetData("/a", False)) for _ in range(3)]
    end(script.writer)
    for one in asked:
        with pytest.raises(ConnectionLossError):
            await one


async def test_many_are_asked_together_and_the_lost_are_told_apart(script: Script) -> None:
    await greeted(script)
    asked = script.connection.ask_all(6, [b"one", b"two", b"three"])
    assert [await script.received() for _ in range(3)] == [
        struct.pack("!ii", xid, 6) + body for xid, body in enumerate((b"one", b"two", b"three"), start=1)
    ]
    script.writer.write(reply(1, b"x") + reply(2, error=NoNodeError.code))
    script.writer.close()
    assert await asked == [(0, b"x"), (NoNodeError.code, b""), (ConnectionLossError.code, b"")]
    await script.connection.lost
    assert await script.connection.ask_all(6, [b"late"]) == [(ConnectionLossError.code, b"")]
    assert await script.connection.ask_all(6, []) == []


async def test_a_server_that_hangs_up_at_once_is_told(script: Script) -> None:
    hello = asyncio.create_task(script.connection.hello(Connect(0, 0, 4000, 0, b"", False)))
    await script.received()
    script.writer.close()
    with pytest.raises(ConnectionLossError):
        await hello
