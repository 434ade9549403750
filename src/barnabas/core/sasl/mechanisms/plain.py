"""SASL PLAIN: user name and password in one token (RFC 4616). Only for listeners that encrypt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Final

from barnabas.core.sasl.exchange import AuthenticationError, Verified, shown

NAME: Final = "PLAIN"

VerifyPassword = Callable[[str, str], bool]
"""(user, password) -> whether they belong together; takes as long for a user that does not exist."""

_ABSENT: Final = "\x00absent"


def verify_in(passwords: Mapping[str, str]) -> VerifyPassword:
    """Give a check against a fixed table of user -> password."""

    def verify(user: str, password: str) -> bool:
        expected = passwords.get(user)
        same = compare_digest(password.encode(), (_ABSENT if expected is None else expected).encode())
        return same and expected is not None

    return verify


class PlainServer:
    """One exchange: one token in, nothing out."""

    __slots__ = ("_verify",)

    def __init__(self, verify: VerifyPassword) -> None:
        self._verify = verify

    def step(self, token: bytes) -> Verified:
        """Check `[authzid] NUL authcid NUL passwd`; an authorization id must equal the user name."""
        authorization_id, user, password = _split(token)
        if not user:
            raise AuthenticationError("no user name", public="Authentication failed: the user name is empty")
        if not password:
            raise AuthenticationError("no password", public="Authentication failed: the password is empty")
        if not self._verify(user, password):
            raise AuthenticationError(
                f"wrong user name or password for {shown(user)}",
                public="Authentication failed: wrong user name or password",
            )
        if authorization_id and authorization_id != user:
            raise AuthenticationError(
                f"{shown(user)} asked to act as {shown(authorization_id)}",
                public="Authentication failed: the authorization id differs from the user name",
            )
        return Verified(b"", user)


class PlainClient:
    """The client's half: everything in its first token."""

    __slots__ = ("_complete", "_password", "_user")

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self._complete = False

    def first(self) -> bytes:
        """Give the only token."""
        return b"\x00".join((b"", self._user.encode(), self._password.encode()))

    def step(self, challenge: bytes) -> None:
        """Take the server's empty answer."""
        if challenge:
            raise AuthenticationError("the server answered PLAIN with a challenge")
        self._complete = True

    @property
    def complete(self) -> bool:
        """Whether the server has answered."""
        return self._complete


def _split(token: bytes) -> tuple[str, str, str]:
    try:
        parts = token.decode().split("\x00")
    except UnicodeDecodeError:
        raise AuthenticationError(
            "token is not UTF-8", public="Authentication failed: the PLAIN token is not UTF-8"
        ) from None
    if len(parts) != 3:
        raise AuthenticationError(
            f"token has {len(parts)} parts",
            public="Authentication failed: a PLAIN token has three parts, divided by NUL",
        )
    return parts[0], parts[1], parts[2]
