"""A node whose sessions end soon, and what tests of clients do to them (KIP-368).

with SessionNode(tmp_path, lifetimes_ms=(2000,)) as node:
    alice = node.as_user("alice").allow("write", "topic", "orders")
    ...  # a client that goes on working
    node.wait_for(lambda: node.count(Kind.RENEWED) >= 3)
    assert node.count(Kind.CUT_OFF) == 0
    node.expire_now(node.sessions()[0].connection)
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.metadata.scram import ScramMechanism
from barnabas.model.principal import KafkaPrincipal
from barnabas.net.dev_ca import write_private
from barnabas.server.dev_node import SUPER_USER
from barnabas.server.network.conduct import SessionConduct
from barnabas.server.network.sessions import Session, expire, sessions
from barnabas.server.router import Promised, Router
from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports
from barnabas.testing.session_events import Kind, SeenConnection, SessionEvent, connections, count
from barnabas.testing.users import User
from barnabas.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.server.context import ClientConnection, RequestContext
    from barnabas.server.network.session_limit import SessionLimit
    from barnabas.wire.primitives import Records

PROTOCOLS: Final = ("SASL_SSL", "SASL_PLAINTEXT")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LIFETIME_MS: Final = 3000
WAIT_SECONDS: Final = 60.0
_SLOWED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = {m.mechanism_name: m for m in ScramMechanism}


class SessionNode(Cluster):
    """One node, in a thread of this process. Its clients' sessions last as long as is said here, from the next on.

    What the super user `admin` does is not recorded: with it tests look at the node.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        protocol: str = "SASL_SSL",
        lifetimes_ms: Sequence[int] = (LIFETIME_MS,),
    ) -> None:
        """lifetimes_ms: of the sessions, one after the other and then again from the first; protocol: of the clients'
        listener. Mechanisms are PLAIN and SCRAM."""
        self._passwords_file = directory.absolute() / "passwords.json"
        self._passwords: dict[str, str] = {}
        self._watch = _Watch(tuple(lifetimes_ms))
        own = _settings(protocol, self._passwords_file)
        super().__init__(directory, {**own, **(settings or {})}, conduct=self._watch)
        self.protocol = protocol

    def start(self) -> None:
        """Start the node; returns once it serves."""
        self._passwords_file.parent.mkdir(parents=True, exist_ok=True)
        self._write_passwords()
        super().start()

        async def slow(_: object) -> None:
            for listener in self.node.listeners:
                if not listener.privileged:
                    listener.router = _WatchedRouter(listener.router, self._watch)

        self.run(slow)

    # --- what clients meet

    def set_lifetimes(self, *lifetimes_ms: int) -> None:
        """Let sessions that begin from now on last so long, each as the next one says."""
        self._watch.set_lifetimes(lifetimes_ms)

    def slow_logins(self, step_ms: int) -> None:
        """Hold back each answer but the last of a login, and of a renewal, for so long from now on."""
        self._watch.step_ms = step_ms

    def slow_answers(self, answer_ms: int, every: int = 1) -> None:
        """Hold back answers to Produce and Fetch for so long from now on, so that more requests are under way.

        every: only that of each so many requests is held back; the others wait behind it.
        """
        self._watch.answer_ms, self._watch.every = answer_ms, every

    def rename(self, user: str, other: str) -> None:
        """Take a user for another one, `User:other`, at its next login or renewal."""
        self._watch.renamed[user] = other

    def change_password(self, user: str, password: str) -> None:
        """Let only this password be right, in every mechanism; sessions that run go on until they end."""
        self._passwords[user] = password
        self._write_passwords()

        async def change(admin: Any) -> None:
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                await admin.create_user(user, password, mechanism)

        self.run(change)

    def as_user(self, name: str) -> User:
        """Give a user of that name, who may log in by every mechanism; without any rights."""
        found = super().as_user(name)
        if name not in self._passwords:
            self.change_password(name, found.password)
        return found

    def expire_now(self, connection: str) -> bool:
        """End a session now; False when there is none of that name. The client may renew it, if it comes to that."""

        async def end(_: object) -> bool:
            return expire(self.node.listeners, connection)

        return bool(self.run(end))

    # --- what was seen

    def sessions(self) -> list[Session]:
        """Give who is connected at the moment, oldest first."""

        async def look(_: object) -> list[Session]:
            return [one for one in sessions(self.node.listeners) if one.principal != f"User:{SUPER_USER}"]

        found: list[Session] = self.run(look)
        return found

    def events(self) -> list[SessionEvent]:
        """Give what has happened to sessions since the node began."""
        return self._watch.events()

    def connections(self) -> list[SeenConnection]:
        """Give the connections that there have been, oldest first."""
        return connections(self.events())

    def count(self, *kinds: Kind) -> int:
        """Give how many events of these kinds there have been."""
        return count(self.events(), *kinds)

    def requests(self) -> dict[str, int]:
        """Give how many requests other than logins were served, by connection."""
        return self._watch.requests()

    def log_end(self, topic: str, partition: int = 0) -> int:
        """Give where a partition's log ends: how many records it has, if none were deleted."""

        async def look(_: object) -> int:
            return self.node.partitions.leader(topic, partition).log.log_end_offset

        return int(self.run(look))

    def now_ms(self) -> int:
        """Give the time on the clock of events."""
        return self._watch.now_ms()

    def wait_for(self, wanted: Callable[[], object], timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until `wanted()` is true; it is asked after every event and request. TimeoutError after timeout_s."""
        if not self._watch.wait_for(wanted, timeout_s):
            raise TimeoutError(f"after {timeout_s:g} s not as wanted; seen: {self.connections()}")

    def _write_passwords(self) -> None:
        write_private(self._passwords_file, json.dumps(self._passwords).encode())


class _Watch(SessionConduct):
    """Records, and does as the test says. Called in the node's loop, read from any thread."""

    def __init__(self, lifetimes_ms: tuple[int, ...]) -> None:
        self.step_ms = 0
        self.answer_ms = 0
        self.every = 1
        self.renamed: dict[str, str] = {}
        self._lifetimes_ms = lifetimes_ms
        self._sessions = 0
        self._began = time.monotonic()
        self._events: list[SessionEvent] = []
        self._requests: Counter[str] = Counter()
        self._news = threading.Condition()

    # --- from the test

    def set_lifetimes(self, lifetimes_ms: tuple[int, ...]) -> None:
        with self._news:
            self._lifetimes_ms, self._sessions = lifetimes_ms, 0

    def events(self) -> list[SessionEvent]:
        with self._news:
            whose = {e.connection for e in self._events if e.principal == f"User:{SUPER_USER}"}
            return [event for event in self._events if event.connection not in whose]

    def requests(self) -> dict[str, int]:
        with self._news:
            return dict(self._requests)

    def now_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    def wait_for(self, wanted: Callable[[], object], timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while not wanted():
            left = end - time.monotonic()
            if left <= 0:
                return False
            with self._news:
                self._news.wait(min(left, 0.1))
        return True

    # --- SessionConduct

    def lifetime_ms(self, client: ClientConnection, limit: SessionLimit) -> int:
        if client.privileged:
            return limit.ms
        with self._news:
            self._sessions += 1
            return self._lifetimes_ms[(self._sessions - 1) % len(self._lifetimes_ms)]

    def principal(self, client: ClientConnection, principal: KafkaPrincipal) -> KafkaPrincipal:
        other = self.renamed.get(principal.name)
        return principal if other is None else KafkaPrincipal(principal.principal_type, other)

    def answer_after_ms(self, client: ClientConnection) -> int:
        return 0 if client.privileged else self.step_ms

    def opened(self, client: ClientConnection) -> None:
        self._happened(client, Kind.OPENED)

    def asked(self, client: ClientConnection, request: str) -> None:
        if request == ApiKey.SASL_HANDSHAKE.name:
            self._happened(client, Kind.TRIED)

    def logged_in(self, client: ClientConnection, lifetime_ms: int | None, *, again: bool, knows: bool) -> None:
        self._happened(client, Kind.RENEWED if again else Kind.LOGGED_IN, lifetime_ms=lifetime_ms, knows=knows)

    def refused(self, client: ClientConnection, why: str, *, again: bool) -> None:
        self._happened(client, Kind.RENEWAL_REFUSED if again else Kind.REFUSED, detail=why)

    def cut_off(self, client: ClientConnection, request: str) -> None:
        self._happened(client, Kind.CUT_OFF, detail=request)

    def ended(self, client: ClientConnection, reason: str) -> None:
        self._happened(client, Kind.ENDED, detail=reason)

    def served(self, client: ClientConnection) -> None:
        """Count a request other than a login."""
        with self._news:
            self._requests[client.id] += 1
            self._news.notify_all()

    def _happened(
        self,
        client: ClientConnection,
        kind: Kind,
        *,
        detail: str = "",
        lifetime_ms: int | None = None,
        knows: bool = True,
    ) -> None:
        if client.privileged:
            return
        software = f"{client.software_name} {client.software_version}".strip()
        who = str(client.principal)
        event = SessionEvent(self.now_ms(), client.id, kind, who, software, detail, lifetime_ms, knows)
        with self._news:
            self._events.append(event)
            self._news.notify_all()


class _WatchedRouter(Router):
    """Counts requests on their way to another router, and holds some answers back."""

    def __init__(self, inner: Router, watch: _Watch) -> None:
        super().__init__((), listener=inner.listener)
        self._inner = inner
        self._watch = watch
        self._slowed = 0

    def route(
        self, ctx: RequestContext, frame: memoryview, body_at: int
    ) -> Coroutine[Any, Any, list[Records]] | Promised | list[Records]:
        if ctx.row.key is not ApiKey.API_VERSIONS:
            self._watch.served(ctx.connection)
        answer = self._inner.route(ctx, frame, body_at)
        if self._watch.answer_ms and ctx.row.key in _SLOWED:
            self._slowed += 1
            if self._slowed % self._watch.every == 0:
                return self._late(ctx, answer, self._watch.answer_ms)
        return answer

    def encode(self, ctx: RequestContext, answer: Any) -> list[Records]:
        return self._inner.encode(ctx, answer)

    async def _late(
        self, ctx: RequestContext, answer: Coroutine[Any, Any, list[Records]] | Promised | list[Records], wait_ms: int
    ) -> list[Records]:
        if isinstance(answer, Promised):
            await asyncio.wait([answer.answer])
            answer = self._inner.kept(ctx, answer)
        parts = answer if isinstance(answer, list) else await answer
        await asyncio.sleep(wait_ms / 1000)
        return parts


def _settings(protocol: str, passwords: Path) -> dict[str, str]:
    clients, controller = free_ports(2)
    return {
        "listeners": f"{protocol}://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:SASL_SSL",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "inter.broker.listener.name": protocol,
        f"listener.name.{protocol.lower()}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"listener.name.{protocol.lower()}.plain.sasl.server.callback.handler.class": (
            "barnabas.testing.password_file:PasswordFile"
        ),
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": f'{_PLAIN_LOGIN} required file="{passwords}";',
        "connections.max.reauth.ms": str(LIFETIME_MS),
    }
