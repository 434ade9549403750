"""The kit with the clients of others, and with ours."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from barnabas.reauth.run import Check, Result, run_all
from barnabas.reauth.scenarios import SCENARIOS
from barnabas.reauth.verdict import Outcome
from barnabas.testing.logs import logged_by_logging
from tests.clients_under_test.commands import CLIENTS

pytestmark = pytest.mark.peer

LIFE_MS: Final = 4000
CHOSEN: Final = ("short", "in-flight", "ended", "password")


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    with logged_by_logging():
        yield


@dataclass(frozen=True)
class Client:
    """A client of `CLIENTS`, the mechanism to try it with, and whether it renews its sessions."""

    name: str
    mechanism: str
    renews: bool


@pytest.mark.requirement("R-13", "R-17", "H-38")
@pytest.mark.parametrize(
    "clients",
    [
        (Client("Java", "SCRAM-SHA-512", True), Client("aiokafka", "SCRAM-SHA-512", False)),
        (Client("old Java", "PLAIN", False), Client("Barnabas", "PLAIN", True)),
        (Client("confluent-kafka", "SCRAM-SHA-256", True), Client("kafka-python", "SCRAM-SHA-512", True)),
    ],
    ids=lambda clients: "-and-".join(one.name for one in clients),
)
def test_what_clients_do_when_their_sessions_end(tmp_path: Path, clients: tuple[Client, Client]) -> None:
    def found(client: Client) -> dict[str, Result]:
        check = Check(CLIENTS[client.name].command(), mechanism=client.mechanism, lifetime_ms=LIFE_MS)
        chosen = [one for one in SCENARIOS if one.name in CHOSEN]
        results = run_all(check, chosen, tmp_path / client.name, at_once=len(chosen))
        return {one.scenario.name: one for one in results}

    with ThreadPoolExecutor(len(clients)) as threads:
        for client, results in zip(clients, threads.map(found, clients), strict=True):
            check_one(client, results)


def check_one(client: Client, found: dict[str, Result]) -> None:
    outcome = Outcome.GOOD if client.renews else Outcome.GETS_BY
    for name in ("short", "in-flight"):
        assert found[name].verdict.outcome is outcome, (client, found[name].verdict)
    assert found["ended"].verdict.outcome is Outcome.GOOD, (client, found["ended"].verdict)
    assert all(not one.seen.records.lost for one in found.values()), client
    words = "was refused when it re-authenticated" if client.renews else "was refused when it logged in anew"
    assert found["password"].verdict.words.startswith(words), (client, found["password"].verdict)
