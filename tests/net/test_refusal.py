"""Whether an address refuses connections."""

from __future__ import annotations

import socket

from barnabas.net.refusal import refuses

LIMIT_MS = 60_000


async def test_a_port_that_nobody_listens_on_refuses() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody else gets it, and nobody listens
        assert await refuses("127.0.0.1", held.getsockname()[1], LIMIT_MS)


async def test_one_that_hangs_refuses_nothing() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        assert not await refuses("127.0.0.1", port, LIMIT_MS)
        with socket.socket() as first, socket.socket() as second:
            for waiting in (first, second):  # more than its queue takes: the next one gets no answer
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", port))
            assert not await refuses("127.0.0.1", port, 20)


async def test_a_name_that_nobody_has_says_nothing() -> None:
    assert not await refuses("nobody.invalid", 1, 2_000)
