"""What workers ask of each other over REST: to write tasks and to shut out others, signed (KIP-507, KIP-618), and
which classes they can run.

One pool of connections for the life of the worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from aiohttp import hdrs
from yarl import URL

from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.signature import sign

_SUBMIT_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 3.0


class LeaderRefusedError(Exception):
    """The leader answered, but not with success. status: HTTP's; the text is the leader's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the leader answered {status}: {message}")
        self.status = status


class LeaderUnreachableError(Exception):
    """No answer came from the leader; the text says from where."""


class LeaderClient:
    """A client of other workers' REST servers, over a session that its maker closes.

    credentials: the headers that they want of users, where they want any.
    """

    def __init__(
        self, session: aiohttp.ClientSession, credentials: Callable[[], Mapping[str, str]] | None = None
    ) -> None:
        self._session = session
        self._credentials = credentials or dict

    async def put_task_configs(
        self,
        leader_url: str,
        connector: str,
        configs: Sequence[Mapping[str, str | None]],
        key: SessionKey | None,
        algorithm: str,
    ) -> None:
        """Have the leader write a connector's task configurations; LeaderRefusedError, LeaderUnreachableError.

        key: what the request is signed with, None in a group that does not sign (C-12, C-16).
        """
        body = json.dumps([dict(config) for config in configs]).encode()
        await self._ask("POST", leader_url, (connector, "tasks"), body, key, algorithm)

    async def fence(self, leader_url: str, connector: str, key: SessionKey | None, algorithm: str) -> None:
        """Have the leader shut out a source's tasks of before (KIP-618); as `put_task_configs`."""
        await self._ask("PUT", leader_url, (connector, "fence"), b"", key, algorithm)

    async def _ask(
        self, method: str, leader_url: str, path: tuple[str, str], body: bytes, key: SessionKey | None, algorithm: str
    ) -> None:
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body else {})
        if key is not None:
            headers |= sign(body, key, algorithm)
        try:
            async with self._session.request(
                method,
                _url(leader_url, "connectors", *path),
                data=body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(_SUBMIT_SECONDS),
                skip_auto_headers=(hdrs.CONTENT_TYPE,),  # a JVM worker takes no empty body of a type that nobody meant
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise LeaderRefusedError(answer.status, _message(await answer.text()))
        except (aiohttp.ClientError, TimeoutError) as e:
            raise LeaderUnreachableError(
                f"the leader at {leader_url} cannot be reached: {str(e) or type(e).__name__}"
            ) from e

    async def connector_classes(self, url: str) -> frozenset[str] | None:
        """Give the classes of the connectors that a worker can run; None when it does not say."""
        try:
            async with self._session.get(
                _url(url, "connector-plugins"),
                headers=self._credentials(),
                timeout=aiohttp.ClientTimeout(_ASK_SECONDS),
            ) as answer:
                if answer.status != 200:
                    return None
                listed: list[dict[str, Any]] = await answer.json()
                return frozenset(str(plugin["class"]) for plugin in listed)
        except (aiohttp.ClientError, TimeoutError, ValueError, TypeError, KeyError):
            return None


def names_class(wanted: str, known: str) -> bool:
    """Say whether `connector.class=wanted` means the class `known`: by its name, or short, or without `Connector`."""
    short = known.rpartition(".")[2]
    return wanted in (known, short, short.removesuffix("Connector"))


def _url(base: str, *path: str) -> URL:
    return URL(base.rstrip("/") + "".join("/" + quote(part, safe="") for part in path), encoded=True)


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, TypeError, KeyError):
        return text[:500]
