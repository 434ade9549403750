"""The REST server of a worker: first it binds its addresses, so that the group can be told; then it serves a herder."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
import structlog
from aiohttp import web

from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder_port import Herder
from barnabas.connect.rest.app import RestPolicy, endpoints_of, make_app
from barnabas.connect.rest.auth import BasicAuth
from barnabas.connect.rest.listeners import (
    RestListener,
    advertised_url,
    client_context,
    parse_listeners,
    response_headers,
    server_context,
)
from barnabas.core.connect.subprotocol import Subprotocol
from barnabas.model.config import ConfigError

log = structlog.get_logger("kafka.connect.rest.server")

_BACKLOG: Final = 128
_SHUTDOWN_S: Final = 1.0


class RestServer:
    """Use as an async context manager: entering binds, leaving ends what is under way and closes."""

    def __init__(self, config: WorkerConfig) -> None:
        """ConfigError when the settings of listeners, TLS or users are wrong."""
        self._config = config
        self._listeners = parse_listeners(config)
        self._tls = {each: server_context(config, each) for each in self._listeners}
        self._policy = rest_policy(config)
        self._sockets: dict[RestListener, socket.socket] = {}
        self._runners: list[web.AppRunner] = []
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """Give what other workers are asked with."""
        assert self._session is not None, "not entered"
        return self._session

    def credentials(self) -> dict[str, str]:
        """Give the headers by which this worker is let in by others, which have the same users."""
        return {} if self._policy.auth is None else self._policy.auth.own()

    @property
    def url(self) -> str:
        """Give where other workers reach this one."""
        return advertised_url(self._config, {each: _port(s) for each, s in self._sockets.items()})

    @property
    def admin_url(self) -> str | None:
        """Give where loggers are set; None where nothing serves them."""
        for listener, bound in self._sockets.items():
            if listener.admin:
                return f"{listener.scheme}://{listener.host or '127.0.0.1'}:{_port(bound)}/"
        return None

    async def __aenter__(self) -> Self:
        """Bind; ConfigError when an address cannot be had."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=client_context(self._config) or True),
            timeout=aiohttp.ClientTimeout(total=90),
            headers={"User-Agent": "kafka-connect", "Accept": "application/json"},
        )
        try:
            for listener in self._listeners:
                self._sockets[listener] = _bind(listener)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def serve(self, herder: Herder) -> None:
        """Answer for this herder from now on."""
        self._warn_of_open_paths()
        for listener, bound in self._sockets.items():
            endpoints = endpoints_of(self._policy, public=listener.public, admin=listener.admin)
            runner = web.AppRunner(
                make_app(herder, self.session, self._policy, endpoints),
                access_log=None,
                shutdown_timeout=_SHUTDOWN_S,
            )
            self._runners.append(runner)
            await runner.setup()
            await web.SockSite(runner, bound, ssl_context=self._tls[listener], backlog=_BACKLOG).start()
        log.info("REST server listens", advertised=self.url, admin=self.admin_url)

    def _warn_of_open_paths(self) -> None:
        if self._policy.auth is not None and Subprotocol.SESSIONED not in self._config.offered:
            log.warning(
                "REST users must show a password, but POST /connectors/<name>/tasks is open to everybody: requests "
                "between workers are not signed, because connect.protocol is not sessioned. Set it to sessioned on "
                "every worker, or keep others away from this port",
                protocol=self._config.text("connect.protocol"),
            )

    async def _close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        for bound in self._sockets.values():
            bound.close()
        if self._session is not None:
            await self._session.close()


def rest_policy(config: WorkerConfig) -> RestPolicy:
    """Give what the settings say of every request; ConfigError."""
    users: str | None = config["barnabas.rest.users.file"]
    extensions: list[str] = config["rest.extension.classes"]
    if any("BasicAuth" in name for name in extensions) and users is None:
        raise ConfigError(
            "rest.extension.classes asks for basic authentication, whose users Java takes from a JAAS file; name a "
            "file of users, user=password a line, with barnabas.rest.users.file"
        )
    return RestPolicy(
        auth=None if users is None else BasicAuth(Path(users)),
        allow_origin=config.text("access.control.allow.origin"),
        allow_methods=config.text("access.control.allow.methods"),
        headers=response_headers(config.text("response.http.headers.config")),
        topic_tracking=config["topic.tracking.enable"],
        topic_tracking_reset=config["topic.tracking.allow.reset"],
    )


def _bind(listener: RestListener) -> socket.socket:
    host = listener.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, listener.port))
    except OSError as e:
        bound.close()
        raise ConfigError(f"listeners: {host or '*'}:{listener.port} cannot be listened on: {e.strerror}") from None
    bound.setblocking(False)
    return bound


def _port(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])
