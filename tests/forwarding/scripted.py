"""A controller that does on the wire what a test says, and a broker's channel to it: for what no real one can be
brought to do on demand.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.core.metadata.image import MetadataImage
from barnabas.model.metrics import Metrics
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.server.authorization import Authz
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.forwarding.channel import ForwardingChannel
from barnabas.server.forwarding.controller_channel import ActiveController
from barnabas.server.metrics import ServerMetrics
from barnabas.server.router import Forwarded
from barnabas.wire.api_keys import API_KEYS, ApiKey, ApiRow
from barnabas.wire.declaration import field_specs
from barnabas.wire.header import decode_request_header, encode_request_header, encode_response_header
from barnabas.wire.message import decode, decode_from, encode, encode_into
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.primitives import Records

ALICE = KafkaPrincipal("User", "alice")
Script = Callable[[EnvelopeRequest], Awaitable[EnvelopeResponse | None]]
"""What to answer an Envelope; None cuts the connection."""


async def done(envelope: EnvelopeRequest) -> EnvelopeResponse:
    """Answer as a controller that did what was asked, with an empty response."""
    return EnvelopeResponse(response_data=response_to(envelope.request_data))


def response_to(request_data: bytes, response: Any = None) -> bytes:
    """Give an encoded response to an encoded request; an empty one unless it is given."""
    header, _, row = decode_request_header(request_data)
    assert row is not None
    version = header.request_api_version
    body = encode(response if response is not None else row.response(), version)
    return encode_response_header(row.key, version, header.correlation_id) + body


class ScriptedController:
    """Listens on loopback, speaks plain text or TLS, serves ApiVersions and whatever the script answers."""

    def __init__(self, script: Script = done, node_id: int = 100, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.script = script
        self.node_id = node_id
        self.envelopes: list[EnvelopeRequest] = []
        self.connections = 0
        self.silent = False
        """Accept connections, and say nothing."""
        self.versions: Mapping[int, tuple[int, int]] = {
            int(row.key): (row.min_version, row.max_version)
            for row in API_KEYS.values()
            if "controller" in row.listeners
        }
        self.own: Callable[[Any, int], Awaitable[Any]] | None = None
        """Answers requests that are no Envelopes."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._news = asyncio.Event()

    async def seen(self, *, connections: int = 0, envelopes: int = 0) -> None:
        """Wait until there were so many of these."""
        while self.connections < connections or len(self.envelopes) < envelopes:
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> ScriptedController:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Go away: connections end, new ones are refused."""
        if self._server is not None:
            self._server.close()
            self.cut()
            await self._server.wait_closed()
            self._server = None

    def cut(self) -> None:
        """End every connection."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    @property
    def target(self) -> ActiveController:
        """Give it as the active controller."""
        assert self._server is not None
        return ActiveController(self.node_id, 1, "127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._news.set()
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                answer = await self._answer(frame)
                if answer is None:
                    break
                if answer:
                    writer.write(len(answer).to_bytes(4, "big") + answer)
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, frame: bytes) -> bytes | None:
        header, body_at, row = decode_request_header(frame)
        assert row is not None
        if self.silent:
            return b""
        version = header.request_api_version
        answer: Any
        if row.key is ApiKey.API_VERSIONS:
            keys = [
                ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in self.versions.items()
            ]
            answer = ApiVersionsResponse(api_keys=keys)
        else:
            request: Any = decode_from(row.request, version, frame, body_at)[0]
            if isinstance(request, EnvelopeRequest):
                self.envelopes.append(request)
                self._news.set()
                answer = await self.script(request)
            else:
                assert self.own is not None, row
                answer = await self.own(request, version)
        if answer is None:
            return None
        return encode_response_header(row.key, version, header.correlation_id) + encode(answer, version)


@dataclass
class Broker:
    """As much of a broker as forwards: `server.forwarding.errand_runner.ForwardingNode`."""

    config: NodeConfig
    metrics: ServerMetrics = field(default_factory=lambda: ServerMetrics(Metrics(SystemClock())))
    metadata: MetadataImage = MetadataImage.EMPTY
    leader: ActiveController | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def image(self) -> MetadataImage:
        """Give the metadata."""
        return self.metadata

    def elect(self, leader: ActiveController | None) -> None:
        """Let another node lead."""
        self.leader = leader
        self._changed()

    def learn(self, metadata: MetadataImage) -> None:
        """Let the metadata be these."""
        self.metadata = metadata
        self._changed()

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._news.wait()

    async def next_image(self) -> MetadataImage:
        """Wait for the next metadata."""
        await self._news.wait()
        return self.metadata

    def _changed(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def broker_config(**settings: str) -> NodeConfig:
    """Give a broker's configuration; settings: keys with `__` for a dot."""
    return NodeConfig.parse(
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://localhost:19092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:19093",
            "request.timeout.ms": "120000",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
    )


@contextlib.asynccontextmanager
async def channel_of(broker: Broker) -> AsyncIterator[ForwardingChannel]:
    """Give the channel of a broker, closed when the block ends."""
    channel = ForwardingChannel(
        broker, leader=lambda: broker.leader, leader_changed=broker.changed, next_image=broker.next_image
    )
    try:
        yield channel
    finally:
        await channel.close()


def client_request(request: Any, version: int | None = None, client_id: str = "tool") -> tuple[RequestContext, bytes]:
    """Give a request as the router has it when it forwards it: alice's, from 192.0.2.7."""
    row = API_KEYS[request.API_KEY]
    version = row.max_version if version is None else version
    header = RequestHeader(request_api_key=row.key, request_api_version=version, correlation_id=77, client_id=client_id)
    parts: list[Records] = []
    encode_request_header(header, parts)
    encode_into(request, version, parts)
    connection = ClientConnection("c", "192.0.2.7", 1, "PLAINTEXT", "PLAINTEXT", ALICE)
    authz = Authz(None, ALICE, "192.0.2.7", row.name)
    ctx = RequestContext(None, connection, row, version, 77, client_id, authz)  # type: ignore[arg-type]
    return ctx, b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


async def forwarded(
    channel: ForwardingChannel, request: Any, version: int | None = None, client_id: str = "tool"
) -> Any:
    """Forward a request and give the response, decoded where another node encoded it."""
    ctx, frame = client_request(request, version, client_id)
    answer = await channel.forward(ctx, memoryview(frame))
    if isinstance(answer, Forwarded):
        head = len(encode_response_header(ctx.row.key, ctx.version, 77))
        assert answer.frame[:4] == (77).to_bytes(4, "big")
        return decode(ctx.row.response, ctx.version, answer.frame, head)
    return answer


def request_with_elements(row: ApiRow, version: int) -> Any:
    """Give a request with one element in each list, so that its answer has a place for every error."""
    return _filled(row.request(), version)


def _filled(struct: Any, version: int) -> Any:
    samples = {"string": "x", "int32": 0, "int16": 0, "int8": 0, "bytes": b"", "uuid": Uuid(bytes(16))}
    for spec in field_specs(type(struct)):
        if spec.kind == "array" and version in spec.on.versions:
            one = samples[spec.element] if spec.struct is None else _filled(spec.struct(), version)
            setattr(struct, spec.name, [one])
        elif spec.name == "principal_type" and version in spec.on.versions:
            setattr(struct, spec.name, "User")  # who renews a token: the broker itself refuses every other type
    return struct
