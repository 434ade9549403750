"""A channel: one connection of a client to a node, secured, negotiated, with many requests under way at once.

States: connecting -> negotiating (ApiVersions) -> authenticating (SASL, when asked for) -> open -> closed. Where the
node lets sessions end, the first request that comes late in a session's life renews it (KIP-368): that request and all
later ones go out once the node is content, while what went out before is still answered.
A closed channel never opens again; whoever holds it makes a new one. Received frames are never copied when they
are large: records that a response decodes to are views of the buffer that the socket filled.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from barnabas.core.sasl.client import SaslClient, SendHandshake, SendToken
from barnabas.core.sasl.exchange import AuthenticationError as SaslRefusedError
from barnabas.core.sasl.session import LEAST_INTERVAL_MS, renewal_after_ms
from barnabas.net.tls import ClientTls
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.header import RequestHeader, decode_response_header, encode_request_header
from barnabas.wire.message import decode, encode_into
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SOFTWARE_NAME: Final = "barnabas"
SOFTWARE_VERSION: Final = "0.1.0"
MAX_RESPONSE_BYTES: Final = 1 << 29
_MAX_GREETING_BYTES: Final = 1 << 20
"""What an answer may have before the node has shown that it speaks Kafka's protocol."""
_SCRATCH_BYTES: Final = 1 << 16
_CLOSE_TIMEOUT_S: Final = 2
_BETWEEN_RENEWALS_S: Final = LEAST_INTERVAL_MS / 1000 + 0.05
"""A node refuses a renewal that comes sooner after the one before, as it sees them."""


class ChannelError(Exception):
    """A request got no answer; the subclass says why, and whether trying again makes sense."""


class DisconnectedError(ChannelError):
    """The node cannot be reached, or has closed the connection."""


class RequestTimeoutError(ChannelError):
    """The node did not answer in time; the connection is closed, since answers come in order."""


class UnsupportedVersionError(ChannelError):
    """The node and this client know no common version of the request."""


class AuthenticationError(ChannelError):
    """The node refused the credentials, or proved not to know them; trying again does not help."""


class TlsHandshakeError(ChannelError):
    """The two sides could not agree on TLS, or one did not trust the other's certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """What every connection of a client shares. tls: None for plain text; sasl: makes a fresh exchange with the node on
    a host, at once or when it has been to an issuer of tokens or tickets."""

    client_id: str = SOFTWARE_NAME
    tls: ClientTls | None = None
    sasl: Callable[[str], SaslClient | Awaitable[SaslClient]] | None = None
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class _Receiver(asyncio.BufferedProtocol):
    """Cuts the stream into frames and hands each to the one who waits for it."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, asyncio.Future[bytes | bytearray]]] = deque()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.writable = asyncio.Event()
        self.writable.set()
        self.why_closed = "the node closed the connection"
        self.doubt = ""
        self.max_frame_bytes = _MAX_GREETING_BYTES
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._frame: bytearray | None = None
        self._target = self._scratch
        self._filled = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self.transport = transport  # type: ignore[assignment]  # uvloop's transports are not subclasses

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._target[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._frame is None:
            self._cut_scratch()
        elif self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._target, self._filled = self._scratch, 0
            self._deliver(frame)

    def _cut_scratch(self) -> None:
        scratch, pos, filled = self._scratch, 0, self._filled
        while filled - pos >= 4:
            size = int.from_bytes(scratch[pos : pos + 4], "big")
            if size > self.max_frame_bytes:
                self.abort(_why_not_kafka(bytes(scratch[pos : pos + 4])))
                return
            pos += 4
            if filled - pos >= size:
                self._deliver(bytes(scratch[pos : pos + size]))
                pos += size
            else:
                self._frame = bytearray(size)
                self._frame[: filled - pos] = scratch[pos:filled]
                self._target, self._filled = memoryview(self._frame), filled - pos
                return
        scratch[: filled - pos] = bytes(scratch[pos:filled])
        self._filled = filled - pos

    def _deliver(self, frame: bytes | bytearray) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if not self.waiting or self.waiting[0][0] != correlation_id:
            self.abort(f"the node answered a request that nobody made (correlation id {correlation_id})")
            return
        future = self.waiting.popleft()[1]
        if not future.done():
            future.set_result(frame)

    def abort(self, why: str) -> None:
        self.why_closed, self.doubt = why, ""
        if self.transport is not None:
            self.transport.abort()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.why_closed = f"the connection broke: {exc}"
        self.writable.set()
        if not self.closed.done():
            self.closed.set_result(None)
        while self.waiting:
            future = self.waiting.popleft()[1]
            if not future.done():
                future.set_exception(DisconnectedError(self.why_closed + self.doubt))


class Channel:
    """One open connection. `call` may be used by any number of tasks at once; answers come in order."""

    def __init__(self, host: str, port: int, settings: ChannelSettings, receiver: _Receiver) -> None:
        self.host = host
        self.port = port
        self._settings = settings
        self._receiver = receiver
        self._correlation_ids = itertools.cycle(range(0x7FFFFFFF))
        self._renew_at: float | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._no_renewal_before = 0.0
        self.session_lifetime_ms = 0
        """How long the session lasts, as the server said at the last login; 0: without end (KIP-368)."""
        self.api_versions: Mapping[int, tuple[int, int]] = {ApiVersionsRequest.API_KEY: (0, 3)}
        self.finalized_features: Mapping[str, tuple[int, int]] = {}
        self.supported_features: Mapping[str, tuple[int, int]] = {}
        self.finalized_features_epoch = -1

    @classmethod
    async def open(cls, host: str, port: int, settings: ChannelSettings) -> Self:
        """Connect, negotiate and authenticate; ChannelError when one of these fails."""
        receiver = await _connect(host, port, settings)
        channel = cls(host, port, settings, receiver)
        # Until a request is answered, the likeliest reason for a closed connection is the wrong protocol.
        receiver.doubt = _doubt(settings)
        try:
            await channel.negotiate()
            if settings.sasl is not None:
                await channel._authenticate()
        except BaseException:
            receiver.abort("the connection could not be set up")
            raise
        return channel

    @property
    def is_closed(self) -> bool:
        """Say whether this channel is of no more use."""
        receiver = self._receiver
        return receiver.closed.done() or receiver.transport is None or receiver.transport.is_closing()

    @property
    def in_flight(self) -> int:
        """Give how many requests wait for their answers."""
        return len(self._receiver.waiting)

    def versions(self, request: Any, *, max_version: int | None = None) -> int:
        """Give the newest version of `request` that both sides know; UnsupportedVersionError when there is none."""
        row = API_KEYS[request.API_KEY]
        newest = row.max_version if max_version is None else min(max_version, row.max_version)
        theirs = self.api_versions.get(request.API_KEY)
        if theirs is None:
            raise UnsupportedVersionError(f"{self.host}:{self.port} does not serve {request.NAME}")
        version = min(newest, theirs[1])
        if version < max(row.min_version, theirs[0]):
            raise UnsupportedVersionError(
                f"{request.NAME}: this client knows versions {row.min_version} to {newest}, "
                f"{self.host}:{self.port} serves {theirs[0]} to {theirs[1]}"
            )
        return version

    async def call(
        self,
        request: Any,
        *,
        version: int | None = None,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request message, give the response message; ChannelError when there is none.

        version: exactly this one, else the newest common one, at most max_version.
        timeout_ms: instead of request.timeout.ms.
        """
        try:
            await self._ready()
            response = await self._call(request, version, max_version, timeout_ms)
        except DisconnectedError as e:
            raise DisconnectedError(f"{self.host}:{self.port}: {e}") from None
        self._receiver.doubt = ""
        return response

    async def send_unanswered(self, request: Any, *, version: int | None = None) -> None:
        """Send a request that the node does not answer: Produce with acks 0."""
        use = self.versions(request) if version is None else version
        await self._ready()
        self._write(request, use)
        await self._receiver.writable.wait()

    async def close(self) -> None:
        """Close the connection; what still waits for an answer fails."""
        receiver = self._receiver
        receiver.why_closed = "this client closed the connection"
        if receiver.transport is not None:
            receiver.transport.abort() if receiver.waiting else receiver.transport.close()
            # A peer that reads no more must not keep us: what it has not taken by then is lost with it.
            await asyncio.wait([receiver.closed], timeout=_CLOSE_TIMEOUT_S)
            if not receiver.closed.done():
                receiver.transport.abort()
        await receiver.closed

    async def _call(
        self, request: Any, version: int | None, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        use = self.versions(request, max_version=max_version) if version is None else version
        future: asyncio.Future[bytes | bytearray] = asyncio.get_running_loop().create_future()
        receiver = self._receiver
        self._write(request, use, future)
        wait_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(wait_ms / 1000):
                frame = await future
        except TimeoutError:
            receiver.abort("an earlier request was not answered in time")
            raise RequestTimeoutError(
                f"{self.host}:{self.port} did not answer {request.NAME} within {wait_ms} ms"
            ) from None
        return self._decode(request.API_KEY, use, frame)

    def _write(self, request: Any, version: int, future: asyncio.Future[bytes | bytearray] | None = None) -> None:
        receiver = self._receiver
        if self.is_closed or receiver.transport is None:
            raise DisconnectedError(receiver.why_closed + receiver.doubt)
        correlation_id = next(self._correlation_ids)
        header = RequestHeader(
            request_api_key=request.API_KEY,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=self._settings.client_id,
        )
        parts: list[Any] = [b""]
        encode_request_header(header, parts)
        encode_into(request, version, parts)
        parts[0] = sum(map(len, parts)).to_bytes(4, "big")
        if future is not None:
            receiver.waiting.append((correlation_id, future))
        receiver.transport.writelines(parts)

    def _decode(self, api_key: int, version: int, frame: bytes | bytearray) -> Any:
        try:
            _, offset = decode_response_header(api_key, version, frame)
            return decode(API_KEYS[api_key].response, version, frame, offset)
        except ProtocolError as e:
            self._receiver.abort("an answer could not be read")
            raise DisconnectedError(
                f"the answer to {API_KEYS[api_key].request.NAME} v{version} cannot be read: {e}"
            ) from e

    async def negotiate(self) -> None:
        """Learn what the node serves and its feature levels; done once by `open`, repeated to see news."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        newest = API_KEYS[request.API_KEY].max_version
        response: ApiVersionsResponse = await self._negotiated(request, newest)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = [k.max_version for k in response.api_keys if k.api_key == request.API_KEY]
            response = await self._negotiated(request, min(theirs[0], newest) if theirs else 0)
        if response.error_code != ErrorCode.NONE:
            raise DisconnectedError(
                f"{self.host}:{self.port} refused ApiVersions: {ErrorCode(response.error_code).name}"
            )
        self._receiver.max_frame_bytes = MAX_RESPONSE_BYTES
        self.api_versions = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
        self.supported_features = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
        self.finalized_features = {
            f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features
        }
        self.finalized_features_epoch = response.finalized_features_epoch

    async def _negotiated(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        await self._ready()
        future: asyncio.Future[bytes | bytearray] = asyncio.get_running_loop().create_future()
        sent = ApiVersionsRequest() if version < 3 else request
        self._write(sent, version, future)
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                frame = await future
        except TimeoutError:
            doubt = self._receiver.doubt
            raise DisconnectedError(
                f"{self.host}:{self.port} accepted the connection but does not answer{doubt}"
            ) from None
        except DisconnectedError as e:
            raise DisconnectedError(f"{self.host}:{self.port}: {e}") from None
        # A node that does not know the version answers in version 0, with its own range (KIP-35).
        error = int.from_bytes(frame[4:6], "big", signed=True)
        response: ApiVersionsResponse = self._decode(
            request.API_KEY, 0 if error == ErrorCode.UNSUPPORTED_VERSION else version, frame
        )
        return response

    async def _ready(self) -> None:
        """Wait until a request may go out: there is room for it, and the session is not at its end."""
        loop, receiver = asyncio.get_running_loop(), self._receiver
        while self._renewal is not None or not receiver.writable.is_set() or self._is_late(loop.time()):
            if self._renewal is None and self._is_late(loop.time()):
                self._renewal = loop.create_task(self._renew(), name=f"re-authentication at {self.host}:{self.port}")
                self._renewal.add_done_callback(_seen)
            if self._renewal is not None:
                # Whoever gives up waiting must not leave the exchange half done behind.
                await asyncio.shield(self._renewal)
            else:
                await receiver.writable.wait()

    def _is_late(self, now: float) -> bool:
        return self._renew_at is not None and now >= self._renew_at and not self.is_closed

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            # Sessions of about a second only: what is to be sent has to wait, as nothing may be sent after their end.
            await asyncio.sleep(max(0.0, self._no_renewal_before - loop.time()))
            self._no_renewal_before = loop.time() + _BETWEEN_RENEWALS_S
            await self._authenticate()
        except BaseException:
            self._receiver.abort("the session could not be renewed")
            raise
        finally:
            self._renewal = None

    async def _authenticate(self) -> None:
        assert self._settings.sasl is not None
        version = min(2, self.api_versions.get(SaslAuthenticateRequest.API_KEY, (0, 0))[1])
        try:
            begun = self._settings.sasl(self.host)
            exchange = begun if isinstance(begun, SaslClient) else await begun
            while (step := exchange.next_request) is not None:
                await self._authenticate_step(exchange, step, version)
        except SaslRefusedError as e:
            raise AuthenticationError(f"{self.host}:{self.port}: {e}") from e
        except OSError as e:  # of whoever gives tokens; that may pass
            raise DisconnectedError(str(e)) from e
        self.session_lifetime_ms = exchange.session_lifetime_ms
        after_ms = renewal_after_ms(exchange.session_lifetime_ms, random.random())
        self._renew_at = None if after_ms is None else asyncio.get_running_loop().time() + after_ms / 1000

    async def _authenticate_step(self, exchange: SaslClient, step: SendHandshake | SendToken, version: int) -> None:
        if isinstance(step, SendHandshake):
            shaken: SaslHandshakeResponse = await self._call(SaslHandshakeRequest(mechanism=step.mechanism), 1)
            exchange.handshake_answered(shaken.error_code, shaken.mechanisms)
        else:
            answer: SaslAuthenticateResponse = await self._call(SaslAuthenticateRequest(auth_bytes=step.token), version)
            exchange.token_answered(
                answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms
            )


def _seen(task: asyncio.Task[None]) -> None:
    """Look at how a renewal went, as all who waited for it may be gone: the connection is closed after a failure."""
    if not task.cancelled():
        task.exception()


def _doubt(settings: ChannelSettings) -> str:
    """Ask what to look at when a node says nothing; many close without a word where they refuse a certificate."""
    plain, secure = ("PLAINTEXT", "SSL") if settings.sasl is None else ("SASL_PLAINTEXT", "SASL_SSL")
    if settings.tls is None:
        return f"; is security.protocol right (now {plain})?"
    return f"; is security.protocol right (now {secure}), and does the node trust the certificate of ssl.keystore.*?"


async def _connect(host: str, port: int, settings: ChannelSettings) -> _Receiver:
    loop = asyncio.get_running_loop()
    tls = settings.tls
    if tls is not None:
        tls.reload_if_changed()
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            _, receiver = await loop.create_connection(
                _Receiver,
                host,
                port,
                ssl=None if tls is None else tls.context,
                server_hostname=None if tls is None else host,
            )
    except TimeoutError:
        raise DisconnectedError(f"no connection to {host}:{port} within {settings.connect_timeout_ms} ms") from None
    except ssl.SSLError as e:
        raise TlsHandshakeError(_why_no_tls(host, port, e)) from e
    except (ConnectionResetError, ConnectionAbortedError) as e:
        if tls is None:
            raise DisconnectedError(f"{host}:{port} closed the connection at once") from e
        # A node that ends meanwhile does this too, and then it helps to try again.
        raise DisconnectedError(
            f"{host}:{port} closed the connection during the TLS handshake; if it does not speak TLS, "
            "set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        ) from e
    except OSError as e:
        raise DisconnectedError(f"cannot connect to {host}:{port}: {e.strerror or e}") from e
    return receiver


def _why_no_tls(host: str, port: int, e: ssl.SSLError) -> str:
    if isinstance(e, ssl.SSLCertVerificationError):
        return (
            f"{host}:{port} showed a certificate that is not trusted: {e.verify_message}; "
            "set ssl.truststore.location (or ssl.ca.location) to its authority"
        )
    if e.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"{host}:{port} does not speak TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    return f"the TLS handshake with {host}:{port} failed: {e.reason or e}"


def _why_not_kafka(first: bytes) -> str:
    if first[0] in (0x15, 0x16) and first[1] == 0x03:
        return "the node speaks TLS here; set security.protocol to SSL or SASL_SSL"
    if first.startswith(b"HTTP"):
        return "an HTTP server listens here, not a Kafka node"
    return f"the answer is not Kafka's protocol: it begins with {first!r}"
