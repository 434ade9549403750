"""Asking a Connect worker: any worker's REST API, ours or Apache Kafka's, over aiohttp."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import aiohttp
import typer
import uvloop
from yarl import URL

from barnabas.cli.errors import CliError

T = TypeVar("T")
DEFAULT_URL: Final = "http://127.0.0.1:8083"
_ANSWER_SECONDS: Final = 90.0
_CONFLICT: Final = 409
_PAUSE_SECONDS: Final = 1.0
_PASSING: Final = ("rebalance", "momentarily")
"""What JVM workers say in a 409 that passes; they send no Retry-After."""


class RestError(CliError):
    """A worker's refusal. status: of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(CliError):
    """No worker answers."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Where a worker is, who asks, and how long to go on while its group rebalances."""

    url: str = DEFAULT_URL
    user: str | None = None
    password: str = field(default="", repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    patience_s: float = 60.0

    def login(self) -> dict[str, str]:
        """Give the header that says who asks (HTTP basic authentication), if anybody in particular."""
        if self.user is None:
            return {}
        return {"Authorization": "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()}

    def tls(self) -> ssl.SSLContext | bool:
        """Give what https connections go by; CliError when a file cannot be used."""
        if self.ca is None and self.certificate is None:
            return True
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(str(self.certificate))
        except (OSError, ssl.SSLError) as e:
            raise CliError(f"--ca or --certificate cannot be used: {e}") from None
        return context


class Rest:
    """Requests to one worker. Use as an async context manager.

    note: told, once for each request, that it waits for a rebalance to end.
    """

    def __init__(self, worker: Worker, note: Callable[[str], None]) -> None:
        self._worker = worker
        self._note = note
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        worker = self._worker
        if not worker.url.lower().startswith(("http://", "https://")):
            raise CliError(f"--url {worker.url!r}: want http://HOST:PORT or https://HOST:PORT.")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=worker.tls()),
            timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS),
            skip_auto_headers=("Content-Type",),  # JVM workers refuse an empty body of any type but JSON
            headers={"Accept": "application/json"} | worker.login(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, path: str, **query: str | tuple[str, ...]) -> Any:
        """Give the JSON at a path; RestError, UnreachableError."""
        return await self.ask("GET", path, **query)

    async def ask(self, method: str, path: str, body: object = None, **query: str | tuple[str, ...]) -> Any:
        """Give the JSON of an answer, None for an empty one; RestError, UnreachableError.

        A 409 that passes, because the group rebalances, is asked again as long as there is patience.
        """
        deadline = time.monotonic() + self._worker.patience_s
        noted = False
        while True:
            status, text, retry_after_s = await self._answer(method, path, body, query)
            if status < 300:
                return _parsed(text, self._worker.url)
            message = self._words(status, text)
            if retry_after_s is None or time.monotonic() + retry_after_s > deadline:
                raise RestError(status, message)
            if not noted:
                self._note(f"Waiting for the group to settle: {message}")
                noted = True
            await asyncio.sleep(retry_after_s)

    async def _answer(
        self, method: str, path: str, body: object, query: Mapping[str, str | tuple[str, ...]]
    ) -> tuple[int, str, float | None]:
        assert self._session is not None
        data = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        pairs = [(k, each) for k, v in query.items() for each in (v if isinstance(v, tuple) else (v,))]
        url = URL(self._worker.url.rstrip("/") + path, encoded=True).update_query(pairs)
        try:
            async with self._session.request(method, url, data=data, headers=kind) as answer:
                text = await answer.text()
                return answer.status, text, _retry_after_s(answer, text)
        except TimeoutError:
            raise UnreachableError(
                f"The worker at {self._worker.url} did not answer within {_ANSWER_SECONDS:.0f} s."
            ) from None
        except aiohttp.ClientConnectorCertificateError as e:
            raise UnreachableError(
                f"The certificate of {self._worker.url} is not trusted: {e.certificate_error}. Name the CA with --ca."
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise UnreachableError(
                f"No Connect worker answers at {self._worker.url}: {e}. Start one with `barnabas connect`, or say with "
                "--url where one is."
            ) from None

    def _words(self, status: int, text: str) -> str:
        if status == 401:
            who = "a user and password" if self._worker.user is None else "another user or password"
            return f"The worker at {self._worker.url} wants {who}: give --user and --password."
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        message = said.get("message") if isinstance(said, dict) else None
        if not message:
            return f"{self._worker.url} answered HTTP {status}; is it a Connect worker?"
        return str(message)


def _retry_after_s(answer: aiohttp.ClientResponse, text: str) -> float | None:
    if answer.status != _CONFLICT:
        return None
    told = answer.headers.get("Retry-After", "")
    if told.isdecimal():
        return float(told)
    return _PAUSE_SECONDS if any(word in text for word in _PASSING) else None


def _parsed(text: str, url: str) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        raise CliError(f"What answers at {url} is no Connect worker: it does not speak JSON.") from None


def of(connector: str, *more: str) -> str:
    """Give the path of a connector, or of something of it."""
    return "/".join(["/connectors", quote(connector, safe=""), *more])


def run(worker: Worker, work: Callable[[Rest], Awaitable[T]]) -> T:
    """Do `work` with a worker; notes go to stderr. CliError."""

    async def connected() -> T:
        async with Rest(worker, lambda text: typer.echo(text, err=True)) as rest:
            return await work(rest)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(connected())
