"""A channel against nodes that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from barnabas.net.client import (
    Channel,
    ChannelSettings,
    DisconnectedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from barnabas.net.tls import ClientTls, TlsConfig
from barnabas.wire.header import encode_response_header
from barnabas.wire.message import Message, encode
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from barnabas.wire.messages.produce import ProduceRequest

API_VERSIONS, METADATA = 18, 3
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def node(serve: Serve) -> AsyncIterator[int]:
    """Give the port of a server that does what `serve` says with each connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def request(reader: asyncio.StreamReader) -> tuple[int, int, int]:
    """Read a request; give its API key, version and correlation id."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    body = await reader.readexactly(size)
    return int.from_bytes(body[:2], "big"), int.from_bytes(body[2:4], "big"), int.from_bytes(body[4:8], "big")


def frame(api_key: int, version: int, correlation_id: int, message: Message) -> bytes:
    body = encode_response_header(api_key, version, correlation_id) + encode(message, version)
    return len(body).to_bytes(4, "big") + body


async def negotiate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve ApiVersions: this node knows Metadata 0 to 1 and Produce 90 to 99."""
    key, version, correlation_id = await request(reader)
    assert key == API_VERSIONS
    keys = [
        ApiVersion(api_key=METADATA, max_version=1),
        ApiVersion(api_key=0, min_version=90, max_version=99),
        ApiVersion(api_key=API_VERSIONS, max_version=4),
    ]
    writer.write(frame(API_VERSIONS, version, correlation_id, ApiVersionsResponse(api_keys=keys)))


async def opened(port: int) -> Channel:
    return await Channel.open("127.0.0.1", port, ChannelSettings())


async def test_the_newest_common_version_is_used() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        key, version, correlation_id = await request(reader)
        assert (key, version) == (METADATA, 1)
        writer.write(frame(METADATA, 1, correlation_id, MetadataResponse(controller_id=7)))
        await reader.read()

    async with node(serve) as port:
        channel = await opened(port)
        assert (await channel.call(MetadataRequest())).controller_id == 7
        with pytest.raises(UnsupportedVersionError, match=r"knows versions 3 to 13, .* serves 90 to 99"):
            await channel.call(ProduceRequest())
        await channel.close()


async def test_an_old_node_is_asked_again_in_its_own_version() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, version, correlation_id = await request(reader)
        assert version == 4
        mine = [ApiVersion(api_key=API_VERSIONS, max_version=2)]
        writer.write(frame(API_VERSIONS, 0, correlation_id, ApiVersionsResponse(error_code=35, api_keys=mine)))
        _, version, correlation_id = await request(reader)
        assert version == 2
        writer.write(frame(API_VERSIONS, 2, correlation_id, ApiVersionsResponse(api_keys=mine)))
        await reader.read()

    async with node(serve) as port:
        channel = await opened(port)
        assert channel.api_versions == {API_VERSIONS: (0, 2)}
        await channel.close()


async def test_answers_in_any_pieces_reach_those_who_asked() -> None:
    names = ["x" * 200_000, "y"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        asked = [await request(reader), await request(reader)]
        data = b"".join(
            frame(METADATA, 1, correlation_id, large(name))
            for (_, _, correlation_id), name in zip(asked, names, strict=True)
        )
        for start in range(0, len(data), 70_001):
            writer.write(data[start : start + 70_001])
            await writer.drain()
        await reader.read()

    def large(text: str) -> MetadataResponse:
        return MetadataResponse(
            topics=[MetadataResponseTopic(name=text[i : i + 1000]) for i in range(0, len(text), 1000)]
        )

    async with node(serve) as port:
        channel = await opened(port)
        first, second = await asyncio.gather(channel.call(MetadataRequest()), channel.call(MetadataRequest()))
        assert ["".join(t.name for t in r.topics) for r in (first, second)] == names
        await channel.close()


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x0a", "speaks TLS here"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server"),
        (b"SSH-2.0-OpenSSH\r\n", "not Kafka's protocol"),
        (b"\0\0\0\4\0\0\0\x63", "a request that nobody made"),
        (b"", r"security\.protocol"),
    ],
)
async def test_who_is_no_kafka_is_told(greeting: bytes, said: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(greeting)

    async with node(serve) as port:
        with pytest.raises(DisconnectedError, match=said):
            await opened(port)


async def test_who_does_not_answer_in_time_is_left() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        await reader.read()

    async with node(serve) as port:
        channel = await opened(port)
        other = asyncio.create_task(channel.call(MetadataRequest()))
        with pytest.raises(RequestTimeoutError, match=r"Metadata.* within 30 ms"):
            await channel.call(MetadataRequest(), timeout_ms=30)
        with pytest.raises(DisconnectedError, match="an earlier request was not answered"):
            await other
        assert channel.is_closed
        with pytest.raises(DisconnectedError):
            await channel.call(MetadataRequest())


async def test_an_answer_that_cannot_be_read_ends_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        _, _, correlation_id = await request(reader)
        writer.write(b"\0\0\0\x08" + correlation_id.to_bytes(4, "big") + b"\x7f\xff\xff\xff")
        await reader.read()

    async with node(serve) as port:
        channel = await opened(port)
        with pytest.raises(DisconnectedError, match="cannot be read"):
            await channel.call(MetadataRequest())
        assert channel.is_closed


async def test_nobody_listens() -> None:
    async with node(lambda r, w: asyncio.sleep(0)) as port:
        pass
    with pytest.raises(DisconnectedError, match="cannot connect"):
        await opened(port)


async def test_a_node_that_ends_during_the_tls_handshake_is_only_disconnected() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # then the connection is closed

    async with node(serve) as port:
        settings = ChannelSettings(tls=ClientTls(TlsConfig.parse({})))
        with pytest.raises(DisconnectedError, match="closed the connection during the TLS handshake"):
            await Channel.open("127.0.0.1", port, settings)
