"""SASL GSSAPI, both halves (RFC 4752): a Kerberos context is made, then both agree to protect nothing more.

What a ticket proves is the business of a `SecurityContext`, which a GSS-API library gives; TLS is what encrypts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified, shown

NAME: Final = "GSSAPI"
PRINCIPAL: Final = "principal"
"""The attribute, for principal builders, that holds the whole Kerberos name: `alice/admin@EXAMPLE.COM`."""
_NO_LAYER: Final = 1
_LAYERS_BYTES: Final = 4
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""No security layer, and so no size that its messages may have."""


class SecurityContext(Protocol):
    """One side of a GSS-API context (RFC 2743). Whatever is wrong is an AuthenticationError."""

    @property
    def complete(self) -> bool:
        """Whether both sides know each other."""
        ...

    @property
    def initiator(self) -> str:
        """The Kerberos name of the side that began, once `complete`."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take the other side's token and give ours, empty where there is none."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Give a message with its proof that it is ours."""
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Give the other side's message, proven."""
        ...


ShortName = Callable[[str], str]
"""Gives the user that a Kerberos name stands for; ValueError when it stands for none."""


class _Stage(Enum):
    CONTEXT = auto()
    ACKNOWLEDGED = auto()
    LAYER = auto()


class GssapiServer:
    """One exchange, server's half."""

    __slots__ = ("_context", "_short_name", "_stage")

    def __init__(self, context: SecurityContext, short_name: ShortName) -> None:
        self._context = context
        self._short_name = short_name
        self._stage = _Stage.CONTEXT

    def step(self, token: bytes) -> Challenge | Verified:
        """Take the next of: tokens of the context, an empty one, the choice of the security layer."""
        if self._stage is _Stage.CONTEXT:
            answer = self._context.step(token)
            if not self._context.complete:
                return Challenge(answer)
            if answer:
                self._stage = _Stage.ACKNOWLEDGED
                return Challenge(answer)
            return self._offer()
        if self._stage is _Stage.ACKNOWLEDGED:
            if token:
                raise AuthenticationError("the client says more where its context is complete")
            return self._offer()
        return self._chosen(self._context.unwrap(token))

    def _offer(self) -> Challenge:
        self._stage = _Stage.LAYER
        return Challenge(self._context.wrap(_OFFER))

    def _chosen(self, choice: bytes) -> Verified:
        if len(choice) < _LAYERS_BYTES or not choice[0] & _NO_LAYER:
            raise AuthenticationError(
                f"the client chose the security layer {choice[:_LAYERS_BYTES].hex() or 'of no bytes'}",
                public="Authentication failed: GSSAPI is served without a security layer; use TLS to encrypt",
            )
        # The identity that may follow is not looked at, as in Kafka: kafka-python, for one, sends the service's name.
        name = self._context.initiator
        try:
            user = self._short_name(name)
        except ValueError as e:
            raise AuthenticationError(str(e), public=f"Authentication failed: no user here is {shown(name)}") from None
        if not user:
            raise AuthenticationError(f"the rules make an empty name of {shown(name)}")
        return Verified(b"", user, attributes={PRINCIPAL: name})


class GssapiClient:
    """One exchange, client's half. first: the token that the context has begun with, made where time may be taken."""

    __slots__ = ("_complete", "_context", "_first", "_stage")

    def __init__(self, context: SecurityContext, first: bytes) -> None:
        self._context = context
        self._first = first
        self._stage = _Stage.CONTEXT
        self._complete = False

    def first(self) -> bytes:
        """Give the token that opens the exchange."""
        return self._first

    def step(self, challenge: bytes) -> bytes | None:
        """Take the next of: tokens of the context, the offered security layers, the empty end."""
        if self._stage is _Stage.CONTEXT:
            answer = self._context.step(challenge)
            if self._context.complete:
                self._stage = _Stage.ACKNOWLEDGED
            elif not answer:
                raise AuthenticationError("the server has not proven itself, and nothing is left to say")
            return answer
        if self._stage is _Stage.ACKNOWLEDGED:
            self._stage = _Stage.LAYER
            return self._choice(self._context.unwrap(challenge))
        if challenge:
            raise AuthenticationError("the server says more where all is said")
        self._complete = True
        return None

    @property
    def complete(self) -> bool:
        """Whether the server has let us in."""
        return self._complete

    def _choice(self, offer: bytes) -> bytes:
        if len(offer) != _LAYERS_BYTES or not offer[0] & _NO_LAYER:
            raise AuthenticationError(f"the server wants a security layer of GSSAPI ({offer[:_LAYERS_BYTES].hex()})")
        return self._context.wrap(_OFFER)
