"""How a session proves who it is with: SASL DIGEST-MD5 by pure-sasl, GSSAPI by the node's Kerberos.

DIGEST-MD5 (RFC 2831) is ZooKeeper's default and old; run it over TLS, or use Kerberos.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from puresasl import QOP, SASLError, SASLProtocolException
from puresasl.client import SASLClient

from barnabas.core.sasl.exchange import AuthenticationError, ClientMechanism
from barnabas.core.sasl.mechanisms.gssapi import NAME as GSSAPI
from barnabas.net.kerberos_logins import SERVICE, KerberosLogins, kerberos_logins

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


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A principal with keys, or with a ticket that somebody else gets; both are renewed before they end."""

    who: str
    logins: KerberosLogins

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read the options of Krb5LoginModule, of them `serviceName`; ConfigError when they name no login."""
        who = options.get("principal") or f"the ticket in {options.get('ticketCache', 'the cache of the user')}"
        return cls(f"{GSSAPI}, {who}", kerberos_logins({SERVICE: options["serviceName"]}, options))

    @property
    def remedy(self) -> str:
        """See Login."""
        return "that the principal is one of ZooKeeper's realm, and the servers' keys are those that the KDC knows"

    async def begin(self, host: str) -> ClientMechanism:
        """See Login."""
        return await self.logins.mechanism(host)


class _Digest:
    def __init__(self, username: str, password: str) -> None:
        self._client = SASLClient(
            _DIGEST_HOST, _SERVICE, DIGEST_MD5, username=username, password=password, qops=(QOP.AUTH,)
        )
        self._answered = False

    def first(self) -> bytes:
        return b""

    def step(self, challenge: bytes) -> bytes | None:
        try:
            answer: bytes | None = self._client.process(challenge)
        except (SASLError, SASLProtocolException, AttributeError, ValueError) as e:
            raise AuthenticationError(f"{DIGEST_MD5}: {e}") from None
        if self._answered and not self.complete:  # else one would answer for ever
            raise AuthenticationError(f"{DIGEST_MD5}: the server has not shown that it knows the password")
        self._answered = True
        return answer

    @property
    def complete(self) -> bool:
        return bool(self._client.complete)
