"""SASL OAUTHBEARER, both halves (RFC 7628, KIP-255): a token in one message, and who it names in no more.

What makes a token good is not known here: the server asks `Validate`, the client is given its token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified, shown

NAME: Final = "OAUTHBEARER"
_END: Final = "\x01"
_INVALID: Final = "invalid_token"


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token that was found good: whom it names, until when (ms since the epoch), and all that it claims."""

    principal_name: str
    expiry_ms: int
    claims: Mapping[str, Any] = field(repr=False)


class InvalidTokenError(ValueError):
    """A token is not good; why is for the server's log. scope: what a token would have to have, for the client."""

    def __init__(self, detail: str, *, scope: str | None = None) -> None:
        super().__init__(detail)
        self.scope = scope


Validate = Callable[[str], BearerToken]
"""Gives what a token says; InvalidTokenError when it is not good."""


class OAuthBearerServer:
    """One exchange: a token in; nothing out, or what is wrong, which the client acknowledges with one byte."""

    __slots__ = ("_failure", "_validate")

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._failure: AuthenticationError | None = None

    def step(self, token: bytes) -> Challenge | Verified:
        """Check the client's first message; its answer to a refusal ends the exchange."""
        if self._failure is not None:
            raise self._failure
        authorization_id, bearer = _parse(token)
        try:
            found = self._validate(bearer)
        except InvalidTokenError as e:
            return self._refused(e)
        if authorization_id and authorization_id != found.principal_name:
            raise AuthenticationError(
                f"{shown(found.principal_name)} asked to act as {shown(authorization_id)}",
                public="Authentication failed: the authorization id differs from the one that the token names",
            )
        return Verified(b"", found.principal_name, credential_expiry_ms=found.expiry_ms, attributes=found.claims)

    def _refused(self, error: InvalidTokenError) -> Challenge:
        said = {"status": _INVALID if error.scope is None else "insufficient_scope"}
        if error.scope is not None:
            said["scope"] = error.scope
        text = json.dumps(said, separators=(",", ":"))
        self._failure = AuthenticationError(f"the token is not good: {error}", public=text)
        return Challenge(text.encode())


class OAuthBearerClient:
    """One exchange, client's half. extensions: RFC 7628's key=value pairs, that some brokers want."""

    __slots__ = ("_complete", "_extensions", "_refusal", "_token")

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """ValueError for a token or an extension that the mechanism cannot carry."""
        if not _TOKEN.fullmatch(token):
            raise ValueError("an OAUTHBEARER token has characters that none may have")
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise ValueError(f"the OAUTHBEARER extension {key} is none that can be sent")
        self._token = token
        self._extensions = dict(extensions or {})
        self._refusal: str | None = None
        self._complete = False

    def first(self) -> bytes:
        """Give the only message, if all goes well."""
        pairs = [f"auth=Bearer {self._token}", *(f"{key}={value}" for key, value in self._extensions.items())]
        return ("n,," + _END + _END.join(pairs) + _END + _END).encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Take the server's answer: empty when it took the token; else what is wrong, which is to be acknowledged."""
        if challenge and self._refusal is None:
            self._refusal = challenge.decode(errors="replace")
            return _END.encode()
        if self._refusal is not None:
            raise AuthenticationError(f"the server refused the token: {shown(self._refusal)}")
        self._complete = True
        return None

    @property
    def complete(self) -> bool:
        """Whether the server has taken the token."""
        return self._complete


_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,{_END}(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+{_END})*){_END}"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def _parse(message: bytes) -> tuple[str, str]:
    try:
        match = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise AuthenticationError("malformed first message of OAUTHBEARER")
    pairs = [pair.partition("=")[::2] for pair in match["pairs"].split(_END) if pair]
    auth = [value for key, value in pairs if key == "auth"]
    if len(auth) != 1:
        raise AuthenticationError(f"the first message of OAUTHBEARER has {len(auth)} tokens")
    bearer = _AUTH.fullmatch(auth[0])
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise AuthenticationError("the first message of OAUTHBEARER has no bearer token")
    return (match["authzid"] or "").replace("=2C", ",").replace("=3D", "="), bearer["token"]
