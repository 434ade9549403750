"""How a session proves who it is with: SASL DIGEST-MD5 by pure-sasl, GSSAPI by the node's Kerberos.

DIGEST-MD5 (RFC 2831) is ZooKeeper's default and old; run it over TLS, or use Kerberos.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from puresasl import QOP, SASLError, SASLProtocolException
from puresasl.client import SASLClient

from barnabas.core.sasl.exchange import AuthenticationError, ClientMechanism

DIGEST_MD5: Final = "DIGEST-MD5"
_SERVICE: Final = "zookeeper"
_DIGEST_HOST: Final = "zk-sasl-md5"
"""What every ZooKeeper server calls itself in this mechanism."""


class Login(Protocol):
    """Who a client is, and what proves it."""

    @property
    def who(self) -> str:
        """For people: the mechanism and the name."""
        ...

    @property
    def remedy(self) -> str:
        """For people: what to look at when a server refuses."""
        ...

    async def begin(self, host: str) -> ClientMechanism:
        """Give a fresh exchange with a server; AuthenticationError when refused, OSError when it cannot be had now."""
        ...


@dataclass(frozen=True, slots=True)
class DigestLogin:
    """A user with a password."""

    username: str
    password: str = field(repr=False)

    @property
    def who(self) -> str:
        """See Login."""
        return f"{DIGEST_MD5} user {self.username}"

    @property
    def remedy(self) -> str:
        """See Login."""
        return "username and password in the JAAS file against the section Server of ZooKeeper's"

    async def begin(self, host: str) -> ClientMechanism:
        """See Login."""
        return _Digest(self.username, self.password)


class _Digest:
    def __init__(self, username: str, password: str) -> None:
        self._client = SASLClient(
            _DIGEST_HOST, _SERVICE, DIGEST_MD5, username=username, password=password, qops=(QOP.AUTH,)
        )

    def first(self) -> bytes:
        return b""

    def step(self, challenge: bytes) -> bytes | None:
        try:
            answer: bytes | None = self._client.process(challenge)
        except (SASLError, SASLProtocolException, AttributeError, ValueError) as e:
            raise AuthenticationError(f"{DIGEST_MD5}: {e}") from None
        return answer

    @property
    def complete(self) -> bool:
        return bool(self._client.complete)
