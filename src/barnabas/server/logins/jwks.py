"""The keys that tokens are signed with: a JSON Web Key Set, from a file or a URL (RFC 7517, KIP-768).

A file is read again when it has changed. A URL is asked at the start, from time to time, and when a token names a key
that is not there: at most once a minute for each such name and once a second in all, because anybody can make names up.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import aiohttp
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import import_key

from barnabas.model.config import ConfigError
from barnabas.model.ports import Clock

log = structlog.get_logger("kafka.security.oauthbearer")

MAX_BYTES: Final = 1 << 20
ASK_AGAIN_MS: Final = 60_000
LEAST_INTERVAL_MS: Final = 1_000
_NAMES_KEPT: Final = 16
_LONGEST_NAME: Final = 1000
_TIMEOUT_S: Final = 20
_ASYMMETRIC: Final = ("RSA", "EC", "OKP")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
Key = Any
"""One of joserfc's keys."""


class KeySource(Protocol):
    """Where keys come from."""

    def known(self) -> list[Key]:
        """Give the keys of the moment."""
        ...

    def missed(self, key_id: str) -> None:
        """Take note that a token names a key that is not there."""
        ...

    async def start(self) -> None:
        """Have keys; ConfigError when there are none to be had."""
        ...

    async def run(self) -> None:
        """Keep them fresh."""
        ...


def key_source(url: str, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, clock: Clock) -> KeySource:
    """Give the source of `sasl.oauthbearer.jwks.endpoint.url`; ConfigError when it is none."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileKeys(Path(unquote(parts.path)))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {url!r} is not an https:, http: or file: URL")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        log.warning("keys come over an open connection: whoever is on the way can log in as anybody", url=url)
    return HttpKeys(url, refresh_ms, backoff_ms, backoff_max_ms, clock)


def parse_keys(data: bytes) -> list[Key]:
    """Give the keys of a JSON Web Key Set; ValueError when it is none. Symmetric keys are left out."""
    try:
        document = json.loads(data)
        listed = [key for key in document["keys"] if key.get("kty") in _ASYMMETRIC and key.get("use") != "enc"]
        return [import_key(key) for key in listed]
    except (JoseError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a JSON Web Key Set: {e}") from None


class FileKeys:
    """Keys of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._keys: list[Key] = []

    def known(self) -> list[Key]:
        """See KeySource."""
        try:
            now = self._stamp()
            if now != self._seen:
                self._seen = now  # a file that is no good is complained of once, not at every login
                self._keys = parse_keys(self._path.read_bytes())
        except (OSError, ValueError) as e:
            log.error("the file of keys cannot be used, the old keys stay", file=str(self._path), why=str(e))
        return self._keys

    def missed(self, key_id: str) -> None:
        """See KeySource."""

    async def start(self) -> None:
        """See KeySource."""
        try:
            self._keys, self._seen = parse_keys(self._path.read_bytes()), self._stamp()
        except (OSError, ValueError) as e:
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {self._path}: {e}") from None

    async def run(self) -> None:
        """See KeySource."""

    def _stamp(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size


class HttpKeys:
    """Keys of a URL."""

    def __init__(self, url: str, refresh_ms: int, backoff_ms: int, backoff_max_ms: int, clock: Clock) -> None:
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._backoff_s, self._backoff_max_s = backoff_ms / 1000, backoff_max_ms / 1000
        self._clock = clock
        self._keys: list[Key] = []
        self._missed: OrderedDict[str, int] = OrderedDict()
        self._wanted = asyncio.Event()
        self._asked_at_ms = 0

    def known(self) -> list[Key]:
        """See KeySource."""
        return self._keys

    def missed(self, key_id: str) -> None:
        """See KeySource."""
        now = self._clock.monotonic_ms()
        if len(key_id) > _LONGEST_NAME or now < self._missed.get(key_id, now):
            return
        self._missed[key_id] = now + ASK_AGAIN_MS
        self._missed.move_to_end(key_id)
        if len(self._missed) > _NAMES_KEPT:
            self._missed.popitem(last=False)
        self._wanted.set()

    async def start(self) -> None:
        """See KeySource."""
        try:
            await self._fetch()
        except (OSError, ValueError, aiohttp.ClientError) as e:
            why = str(e) or type(e).__name__
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {self._url}: {why}") from None

    async def run(self) -> None:
        """See KeySource."""
        wait_s, backoff_s = self._refresh_s, self._backoff_s
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            early_ms = self._asked_at_ms + LEAST_INTERVAL_MS - self._clock.monotonic_ms()
            if early_ms > 0:
                await asyncio.sleep(early_ms / 1000)
            self._wanted.clear()
            try:
                await self._fetch()
            except (OSError, ValueError, aiohttp.ClientError) as e:
                log.warning("keys cannot be fetched, the old ones stay", url=self._url, why=str(e) or type(e).__name__)
                wait_s, backoff_s = backoff_s, min(backoff_s * 2, self._backoff_max_s)
            else:
                wait_s, backoff_s = self._refresh_s, self._backoff_s

    async def _fetch(self) -> None:
        self._asked_at_ms = self._clock.monotonic_ms()
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self._url) as response:
            if response.status != 200:
                raise ValueError(f"it answers {response.status}")
            data = await response.content.read(MAX_BYTES + 1)
            while len(data) <= MAX_BYTES and (more := await response.content.read(MAX_BYTES)):
                data += more
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        self._keys = parse_keys(data)
        for key in self._keys:
            self._missed.pop(key.kid or "", None)
