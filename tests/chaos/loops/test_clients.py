"""Loops that nobody answers: who ends, who is begun again, and who stays away."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.ports import HOST, free_ports
from tests.chaos.history import History
from tests.chaos.loops.clients import LoopClient
from tests.chaos.loops.loop import Job

WAIT_SECONDS = 60
MakeClient = Callable[..., LoopClient]

pytestmark = pytest.mark.slow


@pytest.fixture
def new_client(tmp_path: Path) -> Iterator[MakeClient]:
    made: list[LoopClient] = []

    def make(history: History, **settings: Any) -> LoopClient:
        nobody = {"bootstrap.servers": f"{HOST}:{free_ports(1)[0]}", **settings}
        made.append(LoopClient(Job("loop", "g", "orders", "checked", nobody), tmp_path, history))
        return made[-1]

    yield make
    for client in made:
        client.close()


def test_who_is_killed_stays_away_until_it_is_begun_again(new_client: MakeClient) -> None:
    client = new_client(History())
    client.start()
    client.kill()
    client.keep()
    assert client.starts == 1
    client.start()
    client.keep()
    assert client.starts == 2, "it runs"


def test_who_is_replaced_comes_back(new_client: MakeClient) -> None:
    client = new_client(History())
    client.start()
    client.replace()
    client.return_zombie()
    client.pause()
    client.resume()
    client.keep()
    assert client.starts == 2


def test_who_ends_by_itself_is_begun_again_and_a_crash_is_a_surprise(new_client: MakeClient) -> None:
    history = History()
    client = new_client(history, **{"no.such.setting": "1"})
    client.start()
    until = time.monotonic() + WAIT_SECONDS
    while client.starts == 1 and time.monotonic() < until:
        client.keep()
    assert client.starts == 2
    (surprise,) = history.surprises
    assert "no.such.setting" in surprise


def test_who_hangs_is_ended_and_begun_again(new_client: MakeClient) -> None:
    history = History()
    client = new_client(history)
    client.start()
    assert client.process is not None
    client.process.send_signal(signal.SIGALRM)
    until = time.monotonic() + WAIT_SECONDS
    while client.starts == 1 and time.monotonic() < until:
        client.keep()
    assert client.starts == 2
    assert not history.surprises
    assert history.errors == {"loop: hung": 1}
