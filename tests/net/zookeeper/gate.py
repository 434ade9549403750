"""A door before a server: it can be shut, connections through it can be cut, and answers can be kept back."""

from __future__ import annotations

import asyncio
from typing import Self

from barnabas.testing.ports import HOST, free_ports


class Gate:
    """Leads from `port` to a server's. Use as `async with`; it is open then."""

    def __init__(self, target: int) -> None:
        self._target = target
        (self.port,) = free_ports(1)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = asyncio.Event()
        self._answers.set()
        self.passed = 0
        """How many connections there have been."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    async def open(self) -> None:
        """Let connections in."""
        self._answers.set()
        self._server = await asyncio.start_server(self._enter, HOST, self.port)

    async def shut(self) -> None:
        """Let nobody in, and cut those who are."""
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    async def cut(self) -> None:
        """End all connections."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._answers.set()

    def keep_answers(self) -> None:
        """Have nothing of what the server says come through, until the connections are cut."""
        self._answers.clear()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.passed += 1
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, server_writer, None))
                    group.create_task(self._pass(server_reader, writer, self._answers))
            finally:
                server_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # the server is down, or the connection is cut
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, when: asyncio.Event | None) -> None:
        try:
            while data := await reader.read(65536):
                if when is not None:
                    await when.wait()
                if not writer.is_closing():
                    writer.write(data)
        except OSError:
            pass
        writer.transport.abort()
