"""A session with an ensemble: kept alive, carried from server to server, logged in anew on each connection.

Nothing ends it but its owner. A connection that is lost is made again; a session that has expired is followed by
another one; a login that fails is tried again, since the password may be set right and the KDC may come back. The
owner is told of each. Only the start fails: with who refused, and why.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Final

import structlog
from kazoo.protocol.serialization import SASL, Close, Connect, Ping

from barnabas.core.sasl.exchange import AuthenticationError, ClientMechanism
from barnabas.core.zookeeper.errors import (
    AuthFailedError,
    ClosedError,
    ConnectionLossError,
    LoginRequiredError,
    SessionExpiredError,
    ZooKeeperError,
)
from barnabas.core.zookeeper.values import SessionEvent, SessionState
from barnabas.net.zookeeper.connection import Connection
from barnabas.net.zookeeper.settings import ZooKeeperSettings
from barnabas.net.zookeeper.watches import Watches

log = structlog.get_logger("kafka.zookeeper")

_NO_PASSWORD: Final = bytes(16)
_LEAST_CONNECT_S: Final = 1.0
_CLOSE_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


class Session:
    """One session after the other; see the module. `run` is the task that does it all."""

    def __init__(self, settings: ZooKeeperSettings, watches: Watches, tell: Callable[[SessionEvent], None]) -> None:
        self._settings = settings
        self._watches = watches
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._waiting: list[asyncio.Future[Connection]] = []
        self._password = _NO_PASSWORD
        self._timeout_ms = settings.session_timeout_ms
        self._last_zxid = 0
        self._failed = ""
        self._logged = ""
        self._refused_at = 0.0
        """When the login was first refused since the last connection; 0 for never."""
        self.id = 0
        self.closed = False
        self.login_failure = ""
        """Why ZooKeeper does not know us on this connection, or did not let us in when last asked; else empty."""
        self.started: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> Connection | None:
        """Give the connection of the moment, None while there is none."""
        connection = self._connection
        return connection if connection is not None and not connection.lost.done() else None

    async def connection(self) -> Connection:
        """Give the connection of the moment, waiting for one; SessionExpiredError when the session ends meanwhile."""
        if (connection := self.usable) is not None:
            return connection
        if self.closed:
            raise ClosedError
        waiter: asyncio.Future[Connection] = self._loop.create_future()
        self._waiting.append(waiter)
        return await waiter

    async def run(self) -> None:
        """Be connected, until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            connection = await self._connect()
            if connection is None:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            await self._keep(connection)
            self._last_zxid = max(self._last_zxid, connection.last_zxid)
            self._connection = None
            self._became(SessionState.SUSPENDED, connection.lost.result())

    async def close(self) -> None:
        """End the session, so that its ephemeral znodes go at once where a server can be told."""
        self.closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await connection.ask(Close())
            except (ZooKeeperError, TimeoutError):
                pass  # it ends by itself, after its timeout
            connection.abort("closed")
            await connection.lost
        self._wake(ClosedError())
        self._became(SessionState.CLOSED)

    def why_not_connected(self) -> ZooKeeperError:
        """Give the error for who has waited in vain."""
        servers = ",".join(f"{host}:{port}" for host, port in self._settings.servers)
        if self.login_failure:
            return AuthFailedError("", self.login_failure)
        limit_ms = self._settings.connection_timeout_ms
        return ConnectionLossError("", f"no connection to ZooKeeper at {servers} within {limit_ms} ms: {self._failed}")

    async def _connect(self) -> Connection | None:
        """Try each server once."""
        servers = list(self._settings.servers)
        random.shuffle(servers)
        refusal: ZooKeeperError | None = None
        for host, port in servers:
            try:
                return await self._connect_to(host, port)
            except AuthFailedError as e:
                refusal = e
                self._login_failed(e.detail)
            except SessionExpiredError:
                self._expired("ZooKeeper has ended it")
            except (OSError, ZooKeeperError) as e:  # TimeoutError is one of the former
                self._failed = f"{host}:{port}: {e}"
                if isinstance(e, ssl.SSLCertVerificationError):
                    refusal = ConnectionLossError("", f"the certificate of ZooKeeper is not believed, {self._failed}")
        if refusal is not None and not self.started.done():
            self.started.set_exception(refusal)
        return None

    async def _connect_to(self, host: str, port: int) -> Connection:
        exchange = await self._begin_login(host)
        tls = self._settings.tls
        if tls is not None:
            tls.reload_if_changed()
        limit_s = max(self._timeout_ms / 1000 / len(self._settings.servers), _LEAST_CONNECT_S)
        try:
            async with asyncio.timeout(limit_s):
                connection = await Connection.open(host, port, None if tls is None else tls.context, self._watches.fire)
                try:
                    found = await self._attach(connection)
                    self.login_failure = await self._log_in(connection, exchange, f"{host}:{port}")
                    for request in self._watches.requests(self._last_zxid):
                        await connection.ask(request)
                except BaseException as e:
                    connection.abort(str(e))
                    await connection.lost
                    raise
        except TimeoutError:
            raise TimeoutError(f"no answer within {limit_s:g} s") from None
        self.id, self._password, self._timeout_ms = found.session_id, found.passwd, found.time_out
        self._connected(connection, f"{host}:{port}")
        return connection

    def _connected(self, connection: Connection, where: str) -> None:
        self._connection = connection
        if self.login_failure:
            self._login_failed(self.login_failure)
        else:
            self._logged = ""
        self._failed = ""
        self._refused_at = 0.0
        self._became(SessionState.CONNECTED, where)
        if not self.started.done():
            self.started.set_result(None)
        self._wake(connection)

    async def _begin_login(self, host: str) -> ClientMechanism | None:
        """Have what proves us, before anything is said to a server: a session must not live by tries to log in."""
        login = self._settings.login
        if login is None:
            return None
        try:
            return await login.begin(host)
        except AuthenticationError as e:
            raise AuthFailedError("", f"the login of {login.who} failed: {e.detail}") from None
        except OSError as e:
            detail = f"the login of {login.who} cannot be had just now: {e}"
            self._login_failed(detail)
            raise ConnectionLossError("", detail) from None

    async def _attach(self, connection: Connection) -> Connect:
        """Take up the session, or another one; SessionExpiredError when it is gone."""
        asked = self._settings.session_timeout_ms
        found = await connection.hello(Connect(0, self._last_zxid, asked, self.id, self._password, False))
        if found.time_out <= 0:
            raise SessionExpiredError
        return found

    async def _log_in(self, connection: Connection, exchange: ClientMechanism | None, where: str) -> str:
        """Prove who we are; give why the server serves us as nobody, empty when it does not.

        AuthFailedError when it refuses us, or does not prove itself.
        """
        login = self._settings.login
        if login is None or exchange is None:
            return ""
        what = f"the login of {login.who} at ZooKeeper {where}"
        answer = b"not asked yet"
        token: bytes | None = exchange.first()
        try:
            while not exchange.complete:
                found, _ = SASL.deserialize(await connection.ask(SASL(token or b"")), 0)
                answer = found or b""
                token = exchange.step(answer)
        except (AuthFailedError, LoginRequiredError):
            self._end_if_refused_for_long()
            raise AuthFailedError("", f"{what} was refused; check {login.remedy}, and ZooKeeper's log") from None
        except ConnectionLossError:
            raise ConnectionLossError("", f"the connection was lost during {what}") from None
        except AuthenticationError as e:
            if answer:
                raise AuthFailedError("", f"{what} failed: {e.detail}") from None
            # So answers a server that keeps connections whose login it did not like, or knows of none.
            return f"{what} was not accepted, and we are served as nobody; check {login.remedy}, and ZooKeeper's log"
        return ""

    def _end_if_refused_for_long(self) -> None:
        """Give up a session that lives by our tries alone: who waits for its end is to see it."""
        now = self._loop.time()
        self._refused_at = self._refused_at or now
        if self.id and now - self._refused_at > self._timeout_ms / 1000:
            self._expired("the login was refused for longer than it lasts")

    async def _keep(self, connection: Connection) -> None:
        """Ping while nothing else is said; give up a server that says nothing."""
        part_s = self._timeout_ms / 3000
        while not connection.lost.done():
            idle_s = self._loop.time() - connection.written_at
            if idle_s < part_s:
                await asyncio.wait([connection.lost], timeout=part_s - idle_s)
                continue
            asked_at = self._loop.time()
            connection.ask(Ping())
            await asyncio.wait([connection.lost], timeout=part_s)
            await asyncio.sleep(0)  # after a pause of ours, what has come meanwhile is to be read first
            if connection.heard_at < asked_at:
                connection.abort(f"the server has not answered for {part_s:.1f} s")
                await connection.lost

    def _expired(self, why: str) -> None:
        self._watches.clear()
        self._became(SessionState.EXPIRED, why)
        self.id, self._password = 0, _NO_PASSWORD
        self._wake(SessionExpiredError())

    def _login_failed(self, detail: str) -> None:
        if detail != self._logged:
            log.error("the login at ZooKeeper failed", why=detail)
        self._failed = self.login_failure = self._logged = detail
        self._became(SessionState.LOGIN_FAILED, detail)

    def _became(self, state: SessionState, detail: str = "") -> None:
        self._tell(SessionEvent(state, self.id, detail))

    def _wake(self, found: Connection | ZooKeeperError) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.done():
                continue
            if isinstance(found, Connection):
                waiter.set_result(found)
            else:
                waiter.set_exception(found)
