"""Asking workers of the test's own loop over HTTP, and seeing what they say to each other."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from barnabas.connect.worker import Worker
from tests.peers.connect import Answer, ask

SIGNATURE = "X-Connect-Authorization"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"
_DIGESTS = {"HmacSHA1": hashlib.sha1, "HmacSHA256": hashlib.sha256, "HmacSHA512": hashlib.sha512}


async def request(
    worker: Worker, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Give the answer of a worker; body: bytes as they are, anything else as JSON."""
    return await asyncio.to_thread(ask, worker.url.rstrip("/") + path, method, body, headers)


def signed(key: bytes, body: bytes, algorithm: str = "HmacSHA256") -> dict[str, str]:
    """Give the headers of a signed request, made without our own code."""
    mac = hmac.new(key, body, _DIGESTS[algorithm]).digest()
    return {SIGNATURE: base64.b64encode(mac).decode(), ALGORITHM: algorithm}


def records(bootstrap: str, topic: str) -> list[tuple[str, object]]:
    """Give the keys and the JSON of all records of a topic of one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "records", "enable.auto.commit": False})
    try:
        partition = TopicPartition(topic, 0, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(partition)
        consumer.assign([partition])
        found: list[tuple[str, object]] = []
        while consumer.position([partition])[0].offset < end:
            for message in consumer.consume(100, 0.2):
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                found.append((key.decode(), None if value is None else json.loads(value)))
        return found
    finally:
        consumer.close()


def key_in(topic: list[tuple[str, object]]) -> bytes:
    """Give the newest session key that the records of a config topic hand out."""
    newest = [value for key, value in topic if key == "session-key"][-1]
    assert isinstance(newest, dict)
    return base64.b64decode(newest["key"])


@dataclass(frozen=True)
class Seen:
    """A request on the wire."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Wire:
    """What has gone over a port to a worker. port: where the others reach it."""

    port: int = 0
    requests: list[Seen] = field(default_factory=list)


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    """Pass on what comes to a port of its own to another, and take note of the requests."""
    wire, open_ = Wire(), set[asyncio.StreamWriter]()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, noted: bool) -> None:
        seen = bytearray()
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
                if noted:
                    seen += data
                    while (found := _request(seen)) is not None:
                        wire.requests.append(found)
        with suppress(ConnectionError):
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.add(writer)
        there, back = await asyncio.open_connection("127.0.0.1", port)
        open_.add(back)
        await asyncio.gather(copy(reader, back, True), copy(there, writer, False))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for writer in open_:
            writer.close()
        await server.wait_closed()


def _request(seen: bytearray) -> Seen | None:
    head, end, rest = bytes(seen).partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    if len(rest) < length:
        return None
    del seen[: len(head) + 4 + length]
    method, path, _ = first.split(" ")
    return Seen(method, path, headers, rest[:length])
