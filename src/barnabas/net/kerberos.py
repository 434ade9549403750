"""The system's Kerberos (MIT's GSS-API library, through the package gssapi) as contexts of SASL GSSAPI.

Where the KDC is and what the default realm is called stands in krb5.conf (`KRB5_CONFIG`). Accepting asks nobody and
takes a fraction of a millisecond: it reads the key table anew each time, so that keys can be changed under a running
node. What may ask a KDC (`Tickets`, `begin`) is for a thread.
"""

from __future__ import annotations

import itertools
import os
import socket
from dataclasses import dataclass
from typing import Any, Final

import gssapi

from barnabas.core.sasl.exchange import AuthenticationError

_KRB5: Final = gssapi.MechType.kerberos
_PRINCIPAL: Final = gssapi.NameType.kerberos_principal
_PASSING: Final = frozenset(
    (
        -1765328228,  # KRB5_KDC_UNREACH
        -1765328164,  # KRB5_REALM_CANT_RESOLVE
        -1765328355,  # KRB5KDC_ERR_SVC_UNAVAILABLE
        -1765328351,  # KRB5KRB_AP_ERR_TKT_NYV
    )
)
"""Minor codes of what may pass by itself."""
_CACHES: Final = itertools.count()


class Context:
    """See `core.sasl.mechanisms.gssapi.SecurityContext`."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        # Else a refusal would be told at the step after the one that was refused.
        context.__DEFER_STEP_ERRORS__ = False
        self._context = context

    @property
    def complete(self) -> bool:
        """See the protocol."""
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        """See the protocol."""
        try:
            return str(self._context.initiator_name)
        except UnicodeDecodeError as e:
            raise AuthenticationError(f"the owner of the ticket has a name that is not UTF-8: {e.object!r}") from None

    def step(self, token: bytes | None) -> bytes:
        """See the protocol; without a token the context begins."""
        try:
            return self._context.step(token) or b""
        except gssapi.exceptions.GSSError as e:
            raise AuthenticationError(_words(e)) from None

    def wrap(self, message: bytes) -> bytes:
        """See the protocol."""
        try:
            return bytes(self._context.wrap(message, False).message)
        except gssapi.exceptions.GSSError as e:
            raise AuthenticationError(_words(e)) from None

    def unwrap(self, message: bytes) -> bytes:
        """See the protocol."""
        try:
            return bytes(self._context.unwrap(message).message)
        except gssapi.exceptions.GSSError as e:
            raise AuthenticationError(_words(e)) from None


class Acceptor:
    """A service, by its keys."""

    __slots__ = ("_credentials",)

    def __init__(self, key_table: str, principal: str) -> None:
        """ValueError when the key table has no key of the principal."""
        try:
            name = gssapi.Name(principal, _PRINCIPAL)
            self._credentials = gssapi.Credentials(
                name=name, usage="accept", mechs=[_KRB5], store={"keytab": key_table}
            )
        except gssapi.exceptions.GSSError as e:
            raise ValueError(_words(e)) from None

    def context(self) -> Context:
        """Give a fresh context, that waits for a client's first token."""
        return Context(gssapi.SecurityContext(creds=self._credentials, usage="accept"))


@dataclass(frozen=True, slots=True)
class Tickets:
    """What a client shows who it is with. lifetime_s: how long it is good for, from now on."""

    credentials: Any
    lifetime_s: float

    @classmethod
    def by_key_table(cls, key_table: str, principal: str) -> Tickets:
        """Log in by keys; AuthenticationError when the KDC refuses, OSError when there is none just now.

        The library logs in again by itself when a context is begun after half of the ticket's life.
        """
        # A cache of its own for each login: in one that has a ticket already nothing would be renewed.
        cache = f"MEMORY:barnabas-{os.getpid()}-{next(_CACHES)}"
        try:
            Acceptor(key_table, principal)  # which says why keys are of no use, where the login would not
        except ValueError as e:
            raise AuthenticationError(f"Kerberos, {principal}: {e}") from None
        return cls._acquired(principal, {"client_keytab": key_table, "ccache": cache})

    @classmethod
    def by_cache(cls, cache: str | None, principal: str | None) -> Tickets:
        """Open a cache of tickets, the user's own when None; AuthenticationError when it has no ticket that is good."""
        store = {} if cache is None else {"ccache": cache}
        return cls._acquired(principal, store, f"ticket cache {cache or os.environ.get('KRB5CCNAME', 'of the user')}")

    @classmethod
    def _acquired(cls, principal: str | None, store: dict[str, str], whose: str = "") -> Tickets:
        try:
            name = None if principal is None else gssapi.Name(principal, _PRINCIPAL)
            credentials = gssapi.Credentials(name=name, usage="initiate", mechs=[_KRB5], store=store or None)
            return cls(credentials, float(credentials.lifetime))
        except gssapi.exceptions.GSSError as e:
            raise _refusal(e, whose or principal or "") from None

    def renewed(self) -> Tickets:
        """Give the same with the lifetime of now, as the library may have logged in again; errors as above."""
        try:
            return Tickets(self.credentials, float(self.credentials.lifetime))
        except gssapi.exceptions.GSSError as e:
            raise _refusal(e, "the ticket") from None

    def begin(self, service: str, host: str) -> tuple[Context, bytes]:
        """Begin a context with a service on a host: it and its first token; errors as above."""
        name = f"{service}@{_named(host)}"
        try:
            target = gssapi.Name(name, gssapi.NameType.hostbased_service)
            flags = (gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity)
            found = gssapi.SecurityContext(
                name=target, creds=self.credentials, flags=flags, mech=_KRB5, usage="initiate"
            )
            context = Context(found)
            return context, found.step() or b""
        except gssapi.exceptions.GSSError as e:
            raise _refusal(e, name) from None


def default_realm() -> str:
    """Give the realm that krb5.conf names as the default one, empty for none."""
    try:
        return str(gssapi.Name("x", _PRINCIPAL).canonicalize(_KRB5)).partition("@")[2]
    except gssapi.exceptions.GSSError:
        return ""


def _named(host: str) -> str:
    """Give the name of a host that may be an address: services are known by names."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        return socket.getnameinfo((host, 0), socket.NI_NAMEREQD)[0]
    except OSError:
        return host


def _refusal(error: Any, who: str) -> Exception:
    words = f"Kerberos, {who}: {_words(error)}"
    return OSError(words) if _signed(error.min_code) in _PASSING else AuthenticationError(words)


def _words(error: Any) -> str:
    """Give what the library says, without codes: the particular thing where it knows one."""
    particular = "; ".join(error.get_all_statuses(error.min_code, False)) if error.min_code else ""
    if particular and particular != "Success" and not particular.startswith("Unknown"):
        return particular
    return "; ".join(error.get_all_statuses(error.maj_code, True))


def _signed(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code
