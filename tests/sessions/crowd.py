"""Many connections from one process that log in at once and renew their sessions as our clients do.

python -m tests.sessions.crowd PORT CONNECTIONS LIVES: prints one line of JSON when every connection has lived
through so many sessions, or is lost.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from typing import Any, Final

import uvloop

from barnabas.core.sasl.session import renewal_after_ms
from barnabas.wire.header import RequestHeader, encode_request_header
from barnabas.wire.message import encode_into
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.frames import decoded

AT_ONCE: Final = 200
"""How many connect at the same time: the backlog of a listener has its end."""


def frame(request: Any, version: int) -> bytes:
    parts: list[Any] = [b""]
    header = RequestHeader(request_api_key=request.API_KEY, request_api_version=version, client_id="crowd")
    encode_request_header(header, parts)
    encode_into(request, version, parts)
    parts[0] = sum(map(len, parts)).to_bytes(4, "big")
    return b"".join(bytes(part) for part in parts)


LOGIN: Final = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + frame(
    SaslAuthenticateRequest(auth_bytes=b"\0root\0root-secret"), 2
)
ASK: Final = frame(MetadataRequest(topics=[]), 9)


async def answer(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def login(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Log in, the first time or again; gives the session's life."""
    writer.write(LOGIN)
    await answer(reader)
    told: SaslAuthenticateResponse = decoded(SaslAuthenticateRequest(), 2, await answer(reader))
    assert told.error_code == 0, told.error_message
    return told.session_lifetime_ms


async def live(port: int, lives: int, gate: asyncio.Semaphore, planned: list[float]) -> asyncio.StreamWriter:
    """Live through so many sessions; gives the open connection."""
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        life_ms = await login(reader, writer)
    began = time.monotonic()
    for _ in range(lives):
        after_ms = renewal_after_ms(life_ms, random.random())
        assert after_ms is not None
        planned.append(began + after_ms / 1000)
        await asyncio.sleep(max(0.0, planned[-1] - time.monotonic()))
        life_ms = await login(reader, writer)
        began = time.monotonic()
        writer.write(ASK)
        await answer(reader)
    return writer


async def crowd(port: int, connections: int, lives: int) -> dict[str, Any]:
    gate = asyncio.Semaphore(AT_ONCE)
    planned: list[float] = []
    ends = await asyncio.gather(*(live(port, lives, gate, planned) for _ in range(connections)), return_exceptions=True)
    for end in ends:
        if isinstance(end, asyncio.StreamWriter):
            end.close()
    errors = [repr(end) for end in ends if isinstance(end, BaseException)]
    first = min(planned)
    return {"renewals": len(planned), "errors": errors[:5], "planned": [round(at - first, 3) for at in sorted(planned)]}


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(json.dumps(uvloop.run(crowd(*map(int, sys.argv[1:4])))))
