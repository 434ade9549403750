"""Where a client's OAUTHBEARER token comes from: an issuer, a file, or a function of one's own (KIP-255, KIP-768).

The keys are Kafka's. `sasl.oauthbearer.token.endpoint.url` names the issuer's endpoint (https:, http:), which is asked
with the client's credentials (RFC 6749, 4.4), or a file (file:) that something else keeps fresh.
`sasl.oauthbearer.jwt.retriever.class` names a function or a class with `retrieve()` instead, as `package.module:name`;
it gives the token, or an awaitable of it.

A token is used again until a part of its life is over, `sasl.login.refresh.window.factor`; each log-in and each renewal
of a session asks here, so that a session is renewed with a token that is still good.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlsplit

import aiohttp

from barnabas.core.sasl.client import SaslClient
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.core.sasl.mechanisms.claims import json_of, parts_of
from barnabas.core.sasl.mechanisms.oauthbearer import NAME, InvalidTokenError, OAuthBearerClient
from barnabas.model.config import ConfigError

URL: Final = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
FACTOR: Final = "sasl.login.refresh.window.factor"
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
KEYS: Final = (URL, RETRIEVER, CLIENT_ID, CLIENT_SECRET, SCOPE, FACTOR, URL_ENCODE)
_IN_JAAS: Final = {CLIENT_ID: "clientId", CLIENT_SECRET: "clientSecret", SCOPE: "scope"}
_EXTENSION: Final = "extension_"
_DEFAULT_RETRIEVER: Final = "org.apache.kafka.common.security.oauthbearer."
_DEFAULT_FACTOR: Final = 0.8
_TIMEOUT_S: Final = 20
_MAX_BYTES: Final = 1 << 20
_ATTEMPTS: Final = 3
_BACKOFF_S: Final = 0.1

Retrieve = Callable[[], Awaitable[str]]


class BearerTokens:
    """A source of tokens that keeps the last one for a while. Made once a client; safe for many tasks at once."""

    __slots__ = ("_expiry_s", "_extensions", "_factor", "_lock", "_renew_at_s", "_retrieve", "_token")

    def __init__(self, retrieve: Retrieve, *, factor: float, extensions: Mapping[str, str]) -> None:
        self._retrieve = retrieve
        self._factor = factor
        self._extensions = extensions
        self._token = ""
        self._renew_at_s = self._expiry_s = 0.0
        self._lock: asyncio.Lock | None = None

    async def token(self) -> str:
        """Give a token; AuthenticationError when there is none to be had, OSError when there is none just now."""
        if time.time() < self._renew_at_s:
            return self._token
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if time.time() >= self._renew_at_s:
                await self._renew()
        return self._token

    async def exchange(self) -> SaslClient:
        """Give a fresh log-in with a token of now."""
        token = await self.token()
        try:
            return SaslClient(NAME, OAuthBearerClient(token, self._extensions))
        except ValueError as e:
            raise AuthenticationError(str(e)) from None

    async def _renew(self) -> None:
        try:
            token = (await self._retrieve()).strip()
        except (AuthenticationError, OSError):
            if time.time() < self._expiry_s:
                return  # the one that there is will do for now
            raise
        now = time.time()
        try:
            expiry = json_of(parts_of(token)[1]).get("exp")
        except InvalidTokenError:
            expiry = None  # the issuer's own business, then; it is asked each time
        self._token = token
        self._expiry_s = self._renew_at_s = 0.0
        if isinstance(expiry, int | float):
            self._expiry_s = float(expiry)
            self._renew_at_s = now + (expiry - now) * self._factor


def bearer_tokens(settings: Mapping[str, str], options: Mapping[str, str]) -> BearerTokens:
    """Give the source that Kafka's keys describe, as texts. options: of `sasl.jaas.config`; a key goes before them.

    ConfigError when they describe none.
    """
    found = {key: value for key, jaas in _IN_JAAS.items() if (value := settings.get(key) or options.get(jaas))}
    extensions = {k.removeprefix(_EXTENSION): v for k, v in options.items() if k.startswith(_EXTENSION)}
    try:
        factor = float(settings.get(FACTOR) or _DEFAULT_FACTOR)
    except ValueError:
        raise ConfigError(f"{FACTOR}={settings[FACTOR]}: want a number, from 0.5 to 1") from None
    return BearerTokens(_retrieve(settings, found), factor=factor, extensions=extensions)


def _retrieve(settings: Mapping[str, str], found: Mapping[str, str]) -> Retrieve:
    named, url = settings.get(RETRIEVER, ""), settings.get(URL, "")
    if named and not named.startswith(_DEFAULT_RETRIEVER):
        return _Own(_load(named))
    if not url:
        raise ConfigError(f"sasl.mechanism={NAME}: set {URL}, or {RETRIEVER} with a Python function as module:name")
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _File(Path(unquote(parts.path)))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{URL}: {url!r} is not an https:, http: or file: URL")
    for key in (CLIENT_ID, CLIENT_SECRET):
        if key not in found:
            raise ConfigError(f"{key} is missing, or {_IN_JAAS[key]} in sasl.jaas.config: {URL} wants to know who asks")
    encode = settings.get(URL_ENCODE, "").lower() == "true"
    return _Issuer(url, found[CLIENT_ID], found[CLIENT_SECRET], found.get(SCOPE), encode)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path

    async def __call__(self) -> str:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self.path.read_text)
        except (OSError, ValueError) as e:
            raise AuthenticationError(f"{URL}: {self.path}: {e}") from None


@dataclass(frozen=True, slots=True)
class _Own:
    function: Callable[[], Any]

    async def __call__(self) -> str:
        try:
            given = self.function()
            token = await given if inspect.isawaitable(given) else given
        except Exception as e:
            raise AuthenticationError(f"{RETRIEVER} gave no token: {e}") from e
        if not isinstance(token, str):
            raise AuthenticationError(f"{RETRIEVER} gave {type(token).__name__}, not a text")
        return token


@dataclass(frozen=True, slots=True)
class _Issuer:
    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None
    encode: bool

    async def __call__(self) -> str:
        why = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_BACKOFF_S * 2**attempt)
            try:
                return await self._ask()
            except (OSError, TimeoutError, aiohttp.ClientError) as e:
                why = str(e) or type(e).__name__
        raise OSError(f"{URL}: {self.url}: {why}")

    async def _ask(self) -> str:
        who, secret = (quote_plus(t) if self.encode else t for t in (self.client_id, self.secret))
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {b64encode(f'{who}:{secret}'.encode()).decode()}",
            "Cache-Control": "no-cache",
        }
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(self.url, data=form, headers=headers, allow_redirects=False) as response,
        ):
            body = await response.content.read(_MAX_BYTES)
            if response.status not in (200, 201):
                error = AuthenticationError(f"{URL}: {self.url} answers {response.status} to {self.client_id}")
                if response.status < 500:
                    raise error
                raise OSError(error.detail)
        try:
            answer = json.loads(body)
            token = answer.get("access_token") or answer.get("id_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str):
            raise AuthenticationError(f"{URL}: the answer of {self.url} holds no token")
        return token


def _load(name: str) -> Callable[[], Any]:
    module, colon, attribute = name.partition(":")
    if not colon:
        module, _, attribute = name.rpartition(".")
    try:
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as e:
        raise ConfigError(f"{RETRIEVER}: cannot load {name!r}: {e}; want a Python function as module:name") from e
    made = found().retrieve if isinstance(found, type) and hasattr(found, "retrieve") else found
    if not callable(made):
        raise ConfigError(f"{RETRIEVER}: {name} is neither a function nor a class with a method retrieve")
    function: Callable[[], Any] = made
    return function
