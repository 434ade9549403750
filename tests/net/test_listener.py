"""A listening socket."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, closing

from barnabas.net.listener import Listener

PEERS = 20


async def test_peers_in_line_hold_up_nobody_else() -> None:
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with closing(Listener("127.0.0.1", 0)) as listener, ExitStack() as stack:
        listener.listen()
        for _ in range(PEERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
        other = asyncio.ensure_future(somebody_else())
        for _ in range(PEERS):
            accepted, host = await listener.accept()
            accepted.close()
            assert host == "127.0.0.1"
        other.cancel()
    assert turns >= PEERS


async def test_a_connection_is_not_lost_to_who_gives_up_waiting_for_it() -> None:
    with closing(Listener("127.0.0.1", 0)) as listener:
        listener.listen()
        waiting = asyncio.ensure_future(listener.accept())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with socket.create_connection(("127.0.0.1", listener.port)) as peer:
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            accepted, _ = await listener.accept()
            with accepted:
                assert accepted.getpeername() == peer.getsockname()
