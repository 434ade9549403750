"""Who a client is by GSSAPI, by Kafka's keys: keys of its own (`useKeyTab`), or a ticket that somebody else gets.

With keys the client logs in at the KDC by itself, and again before its ticket ends; no kinit is needed. A ticket cache
is opened anew for each log-in, so that tickets which something else renews are seen; a renewable one is renewed by
`sasl.kerberos.kinit.cmd` with -R, as Kafka does. Both happen when a connection logs in or renews its session and the
part `sasl.kerberos.ticket.renew.window.factor` of the ticket's life, and a random `sasl.kerberos.ticket.renew.jitter`
of it, is over: nobody needs a ticket sooner.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.sasl.client import SaslClient
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.core.sasl.mechanisms.gssapi import NAME, GssapiClient
from barnabas.model.config import ConfigError

if TYPE_CHECKING:
    from barnabas.net.kerberos import Context, Tickets

log = structlog.get_logger("kafka.security.kerberos")

SERVICE: Final = "sasl.kerberos.service.name"
FACTOR: Final = "sasl.kerberos.ticket.renew.window.factor"
JITTER: Final = "sasl.kerberos.ticket.renew.jitter"
LEAST: Final = "sasl.kerberos.min.time.before.relogin"
KINIT: Final = "sasl.kerberos.kinit.cmd"
KEYS: Final = (SERVICE, FACTOR, JITTER, LEAST, KINIT)
MISSING: Final = f"{NAME} needs another package: pip install 'barnabas[kerberos]'; on Debian that needs libkrb5-dev"
_LIMIT_S: Final = 30
_THREADS: Final = ThreadPoolExecutor(4, "kerberos")
"""Of their own: a KDC that says nothing keeps one for half a minute, and others have work to do meanwhile."""
_SAME_S: Final = 1
"""Ticket lives are told in whole seconds."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a client's ticket comes from: a key table, a cache (None: the user's own), the cache before the table."""

    key_table: str | None
    use_cache: bool
    cache: str | None
    principal: str | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """When a ticket is renewed: at which part of its life, spread over which part more, and how often at most."""

    factor: float = 0.8
    jitter: float = 0.05
    least_s: float = 60.0
    kinit: str = "/usr/bin/kinit"

    def after_s(self, lifetime_s: float, chance: float) -> float:
        """Give how long after its log-in a ticket of this life is renewed. chance: from 0 to 1."""
        wanted = min(lifetime_s, lifetime_s * (self.factor + self.jitter * chance))
        return wanted if self.least_s >= lifetime_s else max(wanted, self.least_s)


class KerberosLogins:
    """The log-ins of one client; safe for many tasks at once, of several loops as well."""

    __slots__ = (
        "_ends_at",
        "_failed_at",
        "_failure",
        "_lock",
        "_renew_at",
        "_renewal",
        "_service",
        "_source",
        "_tickets",
    )

    def __init__(self, service: str, source: Source, renewal: Renewal) -> None:
        self._service = service
        self._source = source
        self._renewal = renewal
        self._tickets: Tickets | None = None
        self._renew_at = self._ends_at = 0.0
        self._failure: Exception | None = None
        self._failed_at = 0.0
        self._lock = threading.Lock()

    async def exchange(self, host: str) -> SaslClient:
        """Give a fresh log-in at a node; AuthenticationError when the KDC refuses, OSError when there is none."""
        return SaslClient(NAME, await self.mechanism(host))

    async def mechanism(self, host: str) -> GssapiClient:
        """Give the same for those who speak another protocol than Kafka's."""
        context, first = await asyncio.get_running_loop().run_in_executor(_THREADS, self._begin, host, time.monotonic())
        return GssapiClient(context, first)

    def _begin(self, host: str, asked_at: float) -> tuple[Context, bytes]:
        with self._lock:
            # Who has waited for somebody else's failure has it as well, and does not wait for another one.
            if self._failure is not None and self._failed_at >= asked_at:
                raise self._failure
            try:
                tickets = self._current()
            except (AuthenticationError, OSError) as e:
                self._failure, self._failed_at = e, time.monotonic()
                raise
        return tickets.begin(self._service, host)

    def _current(self) -> Tickets:
        if self._source.use_cache:
            try:
                return self._cached()
            except AuthenticationError as e:
                if self._source.key_table is None:
                    if self._ends_at:  # there was a ticket: whoever keeps the cache fresh is late, and may yet come
                        raise OSError(e.detail) from None
                    raise
        return self._by_keys()

    def _by_keys(self) -> Tickets:
        from barnabas.net.kerberos import Tickets

        now = time.time()
        if self._tickets is not None and now < self._renew_at:
            return self._tickets
        assert self._source.key_table is not None
        assert self._source.principal is not None
        try:
            found = self._renewed(now) or Tickets.by_key_table(self._source.key_table, self._source.principal)
        except (AuthenticationError, OSError) as e:
            if self._tickets is None or now >= self._ends_at:
                raise
            # The ticket that there is will do for now.
            log.warning("the Kerberos login could not be renewed; the ticket is good for a while", why=str(e))
            self._renew_at = now + min(self._renewal.least_s, (self._ends_at - now) / 2)
            return self._tickets
        self._tickets = found
        self._seen(found, now)
        return found

    def _renewed(self, now: float) -> Tickets | None:
        """Give the tickets where the library has logged in again meanwhile."""
        if self._tickets is None or now >= self._ends_at:
            return None
        try:
            found = self._tickets.renewed()
        except (AuthenticationError, OSError):
            return None
        return found if now + found.lifetime_s > self._ends_at + _SAME_S else None

    def _cached(self) -> Tickets:
        from barnabas.net.kerberos import Tickets

        cache, principal = self._source.cache, self._source.principal
        found, now = Tickets.by_cache(cache, principal), time.time()
        if abs(now + found.lifetime_s - self._ends_at) > _SAME_S:  # another ticket than the last time
            self._seen(found, now)
        if now < self._renew_at:
            return found
        try:
            self._kinit(cache)
        except (OSError, subprocess.SubprocessError) as e:
            self._renew_at = now + self._renewal.least_s
            log.warning("the ticket could not be renewed", by=f"{self._renewal.kinit} -R", why=str(e))
            return found
        found = Tickets.by_cache(cache, principal)
        self._seen(found, time.time())
        return found

    def _seen(self, tickets: Tickets, now: float) -> None:
        self._ends_at = now + tickets.lifetime_s
        self._renew_at = now + self._renewal.after_s(tickets.lifetime_s, random.random())

    def _kinit(self, cache: str | None) -> None:
        environment = os.environ if cache is None else {**os.environ, "KRB5CCNAME": cache}
        subprocess.run(
            [self._renewal.kinit, "-R"], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_LIMIT_S, check=True,
        )  # fmt: skip


_shared: Final = lru_cache(256)(KerberosLogins)
"""Of the whole process: a node makes settings for each connection, and wants the ticket of before."""


def kerberos_logins(settings: Mapping[str, str], options: Mapping[str, str]) -> KerberosLogins:
    """Give the log-ins that Kafka's keys describe, as texts. options: of Krb5LoginModule in `sasl.jaas.config`.

    ConfigError when they describe none, or the package gssapi is not there.
    """
    try:
        import barnabas.net.kerberos  # noqa: F401 - only whether it can be had
    except ImportError as e:
        raise ConfigError(f"{MISSING} ({e})") from None
    service = service_name(settings.get(SERVICE), options)
    renewal = Renewal(
        _number(settings, FACTOR, 0.8), _number(settings, JITTER, 0.05), _number(settings, LEAST, 60_000) / 1000,
        settings.get(KINIT) or "/usr/bin/kinit",
    )  # fmt: skip
    return _shared(service, source(options), renewal)


def service_name(setting: str | None, options: Mapping[str, str]) -> str:
    """Give the name of the nodes' service, of the key or of JAAS; ConfigError when there is none, or two."""
    in_jaas = options.get("serviceName")
    if in_jaas and setting and in_jaas != setting:
        raise ConfigError(f"{SERVICE}={setting}, but serviceName in sasl.jaas.config is {in_jaas}: want one of them")
    found = in_jaas or setting
    if not found:
        raise ConfigError(f"{SERVICE} is not set: want the first part of the nodes' principals, usually kafka")
    return found


def source(options: Mapping[str, str]) -> Source:
    """Give where the ticket comes from; ConfigError when the options of Krb5LoginModule name nothing."""
    use_table, use_cache = (options.get(key, "").lower() == "true" for key in ("useKeyTab", "useTicketCache"))
    table, principal = options.get("keyTab"), options.get("principal")
    if not use_table and not use_cache:
        raise ConfigError(
            f"sasl.jaas.config has no login for {NAME}: want useKeyTab=true with keyTab and principal, or "
            "useTicketCache=true"
        )
    if use_table and not (table and principal):
        raise ConfigError("sasl.jaas.config: useKeyTab=true wants keyTab and principal beside it")
    return Source(table if use_table else None, use_cache, options.get("ticketCache"), principal)


def _number(settings: Mapping[str, str], key: str, default: float) -> float:
    text = settings.get(key) or str(default)
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{key}={text} is not a number") from None
