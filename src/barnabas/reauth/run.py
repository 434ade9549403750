"""Carries scenarios out: a node for each, the client's command against it, and what was seen given to the judge."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.reauth.command import ClientProcess, ClientSettings
from barnabas.reauth.observation import Observation, Records
from barnabas.reauth.scenarios import Act, Scenario
from barnabas.reauth.verdict import Verdict
from barnabas.testing.session_events import Kind, count
from barnabas.testing.sessions import SessionNode
from barnabas.wire.record_batch import decode_columns

TOPIC: Final = "reauth"
USER: Final = "tester"
PASSWORD: Final = "tester-secret"
OTHER_PASSWORD: Final = "another-secret"
OTHER_USER: Final = "somebody-else"
LIFETIME_MS: Final = 3000
LEAST_LIFETIME_MS: Final = 1500
"""A node takes one renewal a second of a connection, so that shorter sessions cannot be renewed in time."""
START_SECONDS: Final = 60.0
RENEWALS: Final = 3
"""So many renewals, one connection having several, show that a client does it."""
CUTS: Final = 2
GOING_ON: Final = 3
"""So many requests on a new connection show that the client goes on."""
LIVES: Final = 7
"""How many lifetimes a client is watched at most."""
REQUESTS: Final = 10
"""How many requests make traffic."""
WATCH_SECONDS: Final = 2.0
"""How long a client is watched after it was refused."""
SETTLE_SECONDS: Final = 8.0
"""How long a client may take to send again what was not answered, before it counts as lost."""
ONE_SLOW_OF: Final = 10
"""Where answers are slow, each of so many is."""
_LOOK_SECONDS: Final = 0.2
_ENDLESS_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Check:
    """What to try a client with. command: with placeholders, see `command.ClientSettings.places`."""

    command: str
    protocol: str = "SASL_PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    lifetime_ms: int = LIFETIME_MS


@dataclass(frozen=True, slots=True)
class Result:
    """A scenario with what was seen and said."""

    scenario: Scenario
    seen: Observation
    verdict: Verdict


def run_all(check: Check, scenarios: Sequence[Scenario], folder: Path, at_once: int = 1) -> Iterator[Result]:
    """Give the results in the scenarios' order, each as soon as it is there. folder: for nodes, settings and output."""
    stop = threading.Event()
    with ThreadPoolExecutor(at_once, thread_name_prefix="scenario") as threads:
        running = [threads.submit(_Run(check, one, folder / one.name, stop).result) for one in scenarios]
        try:
            for one in running:
                yield one.result()
        finally:
            stop.set()
            for one in running:
                one.cancel()


class _Run:
    """One scenario."""

    def __init__(self, check: Check, scenario: Scenario, folder: Path, stop: threading.Event) -> None:
        self._check = check
        self._scenario = scenario
        self._folder = folder
        self._stop = stop
        lifetimes = [int(part * check.lifetime_ms) or _ENDLESS_MS for part in scenario.lifetimes]
        self._lifetimes = [max(LEAST_LIFETIME_MS, lifetime) for lifetime in lifetimes]
        self._longest_s = max(0 if one == _ENDLESS_MS else one for one in self._lifetimes) / 1000
        self._acted_at_ms: int | None = None
        self._baseline: tuple[int, int] | None = None
        self._watched_from_ms = 0

    def result(self) -> Result:
        """Do it."""
        settings = {"super.users": f"User:admin;User:{USER};User:{OTHER_USER}"}
        node = SessionNode(
            self._folder, settings, protocol=self._check.protocol, lifetimes_ms=self._lifetimes
        )  # fmt: skip
        with node:
            node.change_password(USER, PASSWORD)
            node.create_topic(TOPIC)
            node.slow_logins(int(self._scenario.step * self._check.lifetime_ms))
            node.slow_answers(int(self._scenario.answer * self._check.lifetime_ms), ONE_SLOW_OF)
            client = ClientSettings(
                bootstrap=node.bootstrap,
                topic=TOPIC,
                protocol=self._check.protocol,
                mechanism=self._check.mechanism,
                username=USER,
                password=PASSWORD,
                ca=node.ca if self._check.protocol == "SASL_SSL" else None,
            )
            log = self._folder / "client.log"
            with ClientProcess(self._check.command, client.places(self._folder), log) as process:
                self._watch(node, process)
                exit_code, output = process.exit_code, process.output
                events, requests = node.events(), sum(node.requests().values())
                grown = self._grown(node)
                watched_ms = node.now_ms() - self._watched_from_ms
                up_to = self._settle(process)
        seen = Observation(
            events=tuple(events),
            records=self._records(up_to),
            requests=requests,
            exit_code=exit_code,
            output=output,
            acted_at_ms=self._acted_at_ms,
            grown=grown,
            watched_ms=watched_ms,
        )
        return Result(self._scenario, seen, self._scenario.judge(seen))

    def _watch(self, node: SessionNode, process: ClientProcess) -> None:
        def until(wanted: Callable[[], object], seconds: float) -> None:
            try:
                node.wait_for(lambda: process.exit_code is not None or self._stop.is_set() or wanted(), seconds)
            except TimeoutError:
                pass  # that it did not come to that is for the judge

        until(lambda: node.count(Kind.LOGGED_IN), START_SECONDS)
        self._watched_from_ms = node.now_ms()
        if self._scenario.act is Act.NOTHING:
            until(lambda: _is_clear(node), LIVES * self._longest_s)
            return
        until(lambda: sum(node.requests().values()) >= REQUESTS, START_SECONDS)
        if process.exit_code is not None or sum(node.requests().values()) < REQUESTS:
            return
        self._act(node)
        if self._scenario.act is Act.END_A_SESSION:
            until(
                lambda: self._was_told(node, Kind.CUT_OFF, Kind.RENEWED) and self._grown(node) >= GOING_ON,
                START_SECONDS / 2,
            )
            return
        told = [Kind.REFUSED, Kind.RENEWAL_REFUSED]
        if self._scenario.act is Act.CHANGE_THE_PRINCIPAL:
            told.append(Kind.LOGGED_IN)
        until(lambda: self._was_told(node, *told), LIVES * self._longest_s)
        self._baseline = self._progress(node)
        self._watched_from_ms = node.now_ms()
        until(lambda: False, WATCH_SECONDS)

    def _settle(self, process: ClientProcess) -> int:
        """Give the client time to send again what was not answered; gives the number up to which nothing may lack."""
        up_to = self._records().largest
        end = time.monotonic() + SETTLE_SECONDS
        while self._records(up_to).lost and process.exit_code is None and time.monotonic() < end:
            if self._stop.wait(_LOOK_SECONDS):
                break
        return up_to

    def _records(self, up_to: int | None = None) -> Records:
        values: list[bytes | None] = []
        for segment in sorted((self._folder / "data" / f"{TOPIC}-0").glob("*.log")):
            values += decode_columns(segment.read_bytes(), partial_tail=True).values
        return Records.of(values, up_to)

    def _act(self, node: SessionNode) -> None:
        self._baseline = self._progress(node)
        self._acted_at_ms = node.now_ms()
        match self._scenario.act:
            case Act.CHANGE_THE_PASSWORD:
                node.change_password(USER, OTHER_PASSWORD)
            case Act.CHANGE_THE_PRINCIPAL:
                node.rename(USER, OTHER_USER)
            case _:
                requests = node.requests()
                busiest = max(node.sessions(), key=lambda one: requests.get(one.connection, 0), default=None)
                if busiest is not None:
                    node.expire_now(busiest.connection)

    def _was_told(self, node: SessionNode, *kinds: Kind) -> bool:
        since = self._acted_at_ms or 0
        return any(event.at_ms >= since and event.kind in kinds for event in node.events())

    def _grown(self, node: SessionNode) -> int:
        """Give how far the client has come since the baseline: in records, or in requests if it writes none."""
        if self._baseline is None:
            return 0
        now = self._progress(node)
        return now[0] - self._baseline[0] if self._baseline[0] else now[1] - self._baseline[1]

    @staticmethod
    def _progress(node: SessionNode) -> tuple[int, int]:
        return node.log_end(TOPIC), sum(node.requests().values())


def _is_clear(node: SessionNode) -> bool:
    """Say whether it is clear what the client does with sessions that end."""
    if node.count(Kind.RENEWAL_REFUSED):
        return True
    if node.count(Kind.RENEWED) >= RENEWALS:
        return any(one.renewals > 1 for one in node.connections())
    events = [e for e in node.events() if e.kind in (Kind.CUT_OFF, Kind.LOGGED_IN)]
    if count(events, Kind.CUT_OFF) < CUTS or events[-1].kind is not Kind.LOGGED_IN:
        return False
    return node.requests().get(events[-1].connection, 0) >= GOING_ON  # else what was lost could not be seen yet
