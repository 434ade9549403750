"""One client's connection: SASL first where the listener asks for it, then requests, each answered in order.

The thin shell between `net.framed` (frames) and the router. Requests of a connection are served one after the other,
as Kafka does: while one waits, later frames are not delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.net.distinguished_name import PrincipalMappingError
from barnabas.net.framed import FramedConnection
from barnabas.net.outgoing import Part
from barnabas.server.authorization import Authz
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.network.authentication import SaslGate
from barnabas.server.router import Promised
from barnabas.wire.api_keys import ApiKey, ApiRow
from barnabas.wire.errors import ProtocolError
from barnabas.wire.header import decode_request_header

if TYPE_CHECKING:
    from barnabas.server.network.listeners import ServedListener

log = structlog.get_logger("kafka.network.Processor")

SASL_APIS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
REAUTHENTICATES_FROM: Final = 1
"""The first version of SaslAuthenticate whose clients know that a login may end (KIP-368)."""


class Connection:
    """A peer, from its first byte to its last."""

    def __init__(self, listener: ServedListener, host: str) -> None:
        """host: the peer's IP."""
        self._listener = listener
        self.host = host
        self.accepted_at = asyncio.get_running_loop().time()
        """On the loop's clock."""
        self._node = listener.node
        self._router = listener.router
        self._requests = listener.requests
        self._framed: FramedConnection | None = None
        self._gate: SaslGate | None = None
        self._awaited: asyncio.Future[Any] | None = None
        """What the request under way waits for: the task that serves it, or the answer that is promised to it."""
        self._again = False
        self._renewals: int | None = None
        self.client: ClientConnection | None = None

    # --- net.framed.Receiver

    def max_frame_bytes(self) -> int:
        """Give the bound of the next frame: a small one until the client has logged in."""
        if self._gate is not None and not self._gate.complete:
            return self._listener.max_bytes_before_login
        return self._listener.max_request_bytes

    def connected(self, connection: FramedConnection) -> None:
        """Find out who is there, as far as TLS says."""
        self._framed = connection
        host, port = self.host, connection.peer[1]
        try:
            principal = self._listener.tls_principal(connection.transport, host)
        except (PrincipalMappingError, ValueError) as e:
            connection.abort(f"the name in its certificate is of no use: {e}")
            return
        endpoint = self._listener.endpoint
        self.client = ClientConnection(
            id=self._listener.connection_id(host, port),
            host=host,
            port=port,
            listener_name=endpoint.listener_name,
            security_protocol=endpoint.security_protocol,
            principal=principal,
            privileged=self._listener.privileged,
        )
        if endpoint.sasl:
            self._gate = self._listener.sasl_gate(self.client)
            self._node.conduct.opened(self.client)
        elif endpoint.tls:
            self._listener.traffic.login(again=True)

    def frame(self, frame: memoryview) -> None:
        """Serve one request; ProtocolError closes the connection."""
        if self._gate is not None and self._gate.expects_raw_token:
            self._answer_raw_token(self._gate, bytes(frame))
            return
        header, body_at, row = decode_request_header(frame)
        if row is None:
            raise ProtocolError(f"request with the unknown API key {header.request_api_key}")
        ctx = self._context(row, header.request_api_version, header.correlation_id, header.client_id, len(frame))
        if self._gate is not None and (row.key in SASL_APIS or not self._gate.complete):
            if row.key in SASL_APIS:
                self._node.conduct.asked(ctx.connection, row.key.name)
            login = self._gate.receive(ctx, frame, body_at)
            if login.answer is not None:
                ctx.authz.decided = True
                self._again = row.key is ApiKey.SASL_AUTHENTICATE and ctx.version >= REAUTHENTICATES_FROM
                self._finish_login(self._gate, self._router.encode(ctx, login.answer), login.failure)
                return
        elif self._gate is not None and self._gate.expired:
            self._kill(ctx, self._gate)
            return
        answer = self._router.route(ctx, frame, body_at)
        if isinstance(answer, list):
            self._answer(ctx, answer)
        elif isinstance(answer, Promised):
            self.framed.hold()
            self._awaited = answer.answer
            answer.answer.add_done_callback(partial(self._kept, ctx, answer))
        else:
            self.framed.hold()
            self._awaited = asyncio.get_running_loop().create_task(self._serve(ctx, answer))

    def disconnected(self, reason: str) -> None:
        """Give back what the connection held."""
        self._listener.released(self)
        if self.client is not None:
            self._node.connection_ended(self.client)
            if self._gate is not None:
                self._node.conduct.ended(self.client, reason)
        if self._awaited is not None:
            # Not at once: a task that never began would leave what it should await behind, unawaited.
            asyncio.get_running_loop().call_soon(self._awaited.cancel)
        if reason:
            client = self.client
            log.info(
                "connection closed",
                peer=f"{self.host}:{self.framed.peer[1]}",
                listener=self._listener.endpoint.listener_name,
                principal=str(client.principal) if client else "?",
                software=f"{client.software_name} {client.software_version}".strip() if client else "",
                reason=reason,
            )

    # --- the owner's side

    @property
    def framed(self) -> FramedConnection:
        """Give the connection beneath."""
        assert self._framed is not None
        return self._framed

    @property
    def gate(self) -> SaslGate | None:
        """Give the machine that the peer logs in by; None without SASL."""
        return self._gate

    @property
    def idle_since(self) -> float:
        """Give the loop's time of the last byte; the present while a request is being served."""
        if self._awaited is not None:
            return asyncio.get_running_loop().time()
        return self.accepted_at if self._framed is None else self._framed.last_active

    def close(self, reason: str) -> None:
        """Close once everything has been sent; at once when that was asked for before."""
        if self._framed is None:
            return  # still in its handshake, which has a time limit of its own
        if self._framed.closing:
            self._framed.abort(reason)
        else:
            self._framed.close(reason)

    @property
    def cipher(self) -> tuple[str, str] | None:
        """Give the TLS cipher and protocol; None without TLS."""
        tls = None if self._framed is None else self._framed.transport.get_extra_info("ssl_object")
        suite = None if tls is None else tls.cipher()
        return None if suite is None else (suite[0], suite[1])

    def abort(self, reason: str) -> None:
        """Close at once."""
        if self._framed is not None:
            self._framed.abort(reason)

    def shrink(self) -> None:
        """Give memory back that a quiet connection does not need."""
        if self._framed is not None:
            self._framed.shrink()

    # --- serving

    def _context(
        self, row: ApiRow, version: int, correlation_id: int, client_id: str | None, size: int
    ) -> RequestContext:
        assert self.client is not None
        principal = self.client.principal
        return RequestContext(
            node=self._node,
            connection=self.client,
            row=row,
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            authz=Authz(
                self._listener.authorizer(),
                principal,
                self.client.host,
                row.name,
                connection=self.client,
                client_id=client_id,
            ),
            size=size,
            stats=self._requests[row.key],
        )

    async def _serve(self, ctx: RequestContext, answer: Coroutine[Any, Any, list[Part]]) -> None:
        try:
            parts = await answer
        except ProtocolError as e:
            self.framed.abort(str(e))
            return
        finally:
            self._awaited = None
        self._answer(ctx, parts)
        self.framed.release()

    def _kept(self, ctx: RequestContext, promised: Promised, _: object) -> None:
        self._awaited = None
        if promised.answer.cancelled():
            return  # as nobody is there any more
        try:
            parts = self._router.kept(ctx, promised)
        except ProtocolError as e:
            self.framed.abort(str(e))
            return
        self._answer(ctx, parts)
        self.framed.release()

    def _answer(self, ctx: RequestContext, parts: list[Part]) -> None:
        answered_ns, framed = perf_counter_ns(), self.framed
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if size and not framed.send(parts):
            framed.when_sent = partial(ctx.stats.answered, ctx, answered_ns, size)
        else:
            ctx.stats.answered(ctx, answered_ns, size)
        if ctx.throttle_ms:
            self._pause(ctx.throttle_ms)

    def _pause(self, wait_ms: int) -> None:
        self.framed.hold()
        asyncio.get_running_loop().call_later(wait_ms / 1000, self.framed.release)

    # --- logging in

    def _answer_raw_token(self, gate: SaslGate, token: bytes) -> None:
        outcome = gate.raw_token(token)
        parts: list[Part] = []
        if outcome.token is not None:
            parts = [len(outcome.token).to_bytes(4, "big"), outcome.token]
        self._finish_login(gate, parts, outcome.failure)

    def _finish_login(self, gate: SaslGate, parts: list[Part], failure: str | None) -> None:
        assert self.client is not None
        if gate.complete and gate.principal is not None:
            self.client.principal = gate.principal
        traffic, conduct = self._listener.traffic, self._node.conduct
        again = self._renewals is not None
        if failure is None:
            if gate.complete and gate.reauthentications != self._renewals:
                conduct.logged_in(self.client, gate.remaining_ms, again=again, knows=self._again)
                if self._renewals is None:
                    traffic.login(again=self._again)
                else:
                    traffic.renewed(self._node.clock.monotonic_ms(), gate.took_ms)
                self._renewals = gate.reauthentications
            self._answer_login(parts, 0 if gate.complete else conduct.answer_after_ms(self.client))
            return
        conduct.refused(self.client, failure, again=again)
        if self._renewals is None:
            traffic.failed_logins += 1
        else:
            traffic.failed_renewals += 1
        event = "login failed" if self._renewals is None else "re-authentication failed"
        log.warning(event, peer=self.client.host, listener=self.client.listener_name, why=failure)
        # Held back, so that guessing passwords is slow (connection.failed.authentication.delay.ms).
        self.framed.hold()
        asyncio.get_running_loop().call_later(self._listener.failed_login_delay_ms / 1000, self._refuse, parts, failure)

    def _answer_login(self, parts: list[Part], wait_ms: int) -> None:
        if not wait_ms:
            self.framed.send(parts)
            return
        self.framed.hold()
        asyncio.get_running_loop().call_later(wait_ms / 1000, self._answer_login_late, parts)

    def _answer_login_late(self, parts: list[Part]) -> None:
        self.framed.send(parts)
        self.framed.release()

    def _refuse(self, parts: list[Part], failure: str) -> None:
        self.framed.send(parts)
        self.framed.close(f"login failed: {failure}")

    def _kill(self, ctx: RequestContext, gate: SaslGate) -> None:
        """End a connection that is used after the end of its session; nothing is executed or answered (KIP-368)."""
        client = ctx.connection
        software = f"{client.software_name} {client.software_version}".strip() or "unknown"
        limit = gate.limit
        log.warning(
            "connection closed: its session has ended and it did not log in again",
            peer=f"{client.host}:{client.port}",
            listener=client.listener_name,
            principal=str(client.principal),
            mechanism=gate.mechanism,
            software=software,
            client_id=ctx.client_id,
            request=ctx.row.name,
            setting="" if limit is None else f"{limit.key}={limit.ms}",
            knows="it was told when the session ends" if self._again else "it cannot be told when a session ends",
        )
        self._listener.traffic.kill(client.software_name or "unknown")
        self._node.conduct.cut_off(client, ctx.row.name)
        # What earlier requests were answered still goes out.
        self.framed.close("")
