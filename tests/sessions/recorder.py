"""A wire that is written down: which requests go over it, in which order, and between which answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from barnabas.wire.api_keys import ApiKey

SASL: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass
class Tape:
    """What went by, each connection apart: (API, True) for a request and (API, False) for its answer."""

    port: int = 0
    connections: list[list[tuple[ApiKey, bool]]] = field(default_factory=list)

    def requests(self, connection: int = 0) -> list[ApiKey]:
        """Give the requests of a connection in their order."""
        return [key for key, is_request in self.connections[connection] if is_request]

    def handshakes(self) -> int:
        """Give how many logins were begun, over all connections."""
        return sum(self.requests(n).count(ApiKey.SASL_HANDSHAKE) for n in range(len(self.connections)))

    def renewals(self, connection: int = 0) -> list[list[tuple[ApiKey, bool]]]:
        """Give what went by from each handshake but the first to the request after its exchange, both included."""
        tape = self.connections[connection]
        begun = [n for n, entry in enumerate(tape) if entry == (ApiKey.SASL_HANDSHAKE, True)][1:]
        found = []
        for at in begun:
            end = next((n for n in range(at, len(tape)) if tape[n][1] and tape[n][0] not in SASL), len(tape))
            found.append(tape[at : end + 1])
        return found


@asynccontextmanager
async def recorded(host: str, port: int, at: int = 0) -> AsyncIterator[Tape]:
    """Give a tape with a port of its own, `at` or any, that leads to a node without TLS."""
    tape = Tape()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward, away = await asyncio.open_connection(host, port)
        entries: list[tuple[ApiKey, bool]] = []
        tape.connections.append(entries)
        keys: dict[int, ApiKey] = {}
        both = asyncio.gather(_requests(reader, away, entries, keys), _answers(onward, writer, entries, keys))
        try:
            await both
        except (ConnectionError, asyncio.IncompleteReadError):
            both.cancel()
        finally:
            away.close()
            writer.close()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(connected(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, "127.0.0.1", at)
    tape.port = server.sockets[0].getsockname()[1]
    try:
        yield tape
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(4)
    return head, await reader.readexactly(int.from_bytes(head, "big"))


async def _requests(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    entries: list[tuple[ApiKey, bool]],
    keys: dict[int, ApiKey],
) -> None:
    while True:
        head, body = await _frame(reader)
        key = keys[int.from_bytes(body[4:8], "big")] = ApiKey(int.from_bytes(body[:2], "big"))
        entries.append((key, True))
        writer.write(head + body)
        await writer.drain()


async def _answers(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    entries: list[tuple[ApiKey, bool]],
    keys: dict[int, ApiKey],
) -> None:
    while True:
        head, body = await _frame(reader)
        entries.append((keys[int.from_bytes(body[:4], "big")], False))
        writer.write(head + body)
        await writer.drain()
