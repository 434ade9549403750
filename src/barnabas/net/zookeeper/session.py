"""A session with an ensemble: kept alive, carried from server to server, logged in anew on each connection.

Nothing ends it but its owner. A connection that is lost is made again; a session that has expired is followed by
another one; a login that fails is tried again, since the password may be set right and the KDC may come back. The
owner is told of each. Only the start fails: with who refused, and why.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import structlog
from kazoo.protocol.serialization import SASL, Close, Connect, Ping

from barnabas.core.sasl.exchange import AuthenticationError
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
from barnabas.net.zookeeper.logins import Login
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
        self.id = 0
        self.closed = False
        self.login_failure = ""
        """Why ZooKeeper does not know us on this connection, or did not let us in at the last try; else empty."""
        self.started: asyncio.Future[None] = self._loop.create_future()

    async def connection(self) -> Connection:
        """Give the connection of the moment, waiting for one; SessionExpiredError when the session ends meanwhile."""
        if self._connection is not None and not self._connection.lost.done():
            return self._connection
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
        refusal: AuthFailedError | None = None
        for host, port in servers:
            limit_s = max(self._timeout_ms / 1000 / len(servers), _LEAST_CONNECT_S)
            try:
                async with asyncio.timeout(limit_s):
                    return await self._connect_to(host, port)
            except AuthFailedError as e:
                refusal = e
                self._login_failed(e.detail)
            except SessionExpiredError:
                self._expired()
            except TimeoutError:
                self._failed = f"{host}:{port} did not answer within {limit_s:g} s"
            except (OSError, ZooKeeperError) as e:
                self._failed = f"{host}:{port}: {e}"
        if refusal is not None and not self.started.done():
            self.started.set_exception(refusal)
        return None

    async def _connect_to(self, host: str, port: int) -> Connection:
        tls = None if self._settings.tls is None else self._settings.tls.context
        connection = await Connection.open(host, port, tls, self._watches.fire)
        try:
            await self._attach(connection)
            self.login_failure = await self._log_in(connection, host, port)
            for request in self._watches.requests(self._last_zxid):
                await connection.ask(request)
        except BaseException as e:
            connection.abort(str(e))
            await connection.lost
            raise
        self._connection = connection
        if self.login_failure:
            self._login_failed(self.login_failure)
        self._became(SessionState.CONNECTED, f"{host}:{port}")
        if not self.started.done():
            self.started.set_result(None)
        self._wake(connection)
        return connection

    async def _attach(self, connection: Connection) -> None:
        """Take up the session, or a first one; SessionExpiredError when it is gone."""
        asked = self._settings.session_timeout_ms
        found = await connection.hello(Connect(0, self._last_zxid, asked, self.id, self._password, False))
        if found.time_out <= 0:
            raise SessionExpiredError
        self.id, self._password, self._timeout_ms = found.session_id, found.passwd, found.time_out

    async def _log_in(self, connection: Connection, host: str, port: int) -> str:
        """Prove who we are; give why the server serves us as nobody, empty when it does not.

        AuthFailedError when it refuses, or there is nothing to prove it with at the moment.
        """
        login = self._settings.login
        if login is None:
            return ""
        where = f"{login.who} at ZooKeeper {host}:{port}"
        answer: bytes | None = None
        asked = False
        try:
            exchange = await login.begin(host)
            token: bytes | None = exchange.first()
            while not exchange.complete:
                answer, _ = SASL.deserialize(await connection.ask(SASL(token or b"")), 0)
                asked = True
                token = exchange.step(answer or b"")
        except (AuthFailedError, LoginRequiredError):
            raise AuthFailedError("", f"the login of {where} was refused; {_remedy(login)}") from None
        except ConnectionLossError:
            raise ConnectionLossError("", f"the connection was lost during the login of {where}") from None
        except AuthenticationError as e:
            if asked and not answer:
                return f"the login of {where} was not accepted, and we are served as nobody; {_remedy(login)}"
            raise AuthFailedError("", f"the login of {where} failed: {e.detail}") from None
        except OSError as e:
            raise AuthFailedError("", f"the login of {where} cannot be had just now: {e}") from None
        return ""

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

    def _expired(self) -> None:
        self._failed = "the session has expired"
        self._watches.clear()
        self._became(SessionState.EXPIRED)
        self.id, self._password = 0, _NO_PASSWORD
        self._wake(SessionExpiredError())

    def _login_failed(self, detail: str) -> None:
        if detail != self._failed:
            log.error("the login at ZooKeeper failed", why=detail)
        self._failed = self.login_failure = detail
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


def _remedy(login: Login) -> str:
    return f"check {login.remedy}, and ZooKeeper's log"
