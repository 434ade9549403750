"""Java's clients of before sessions had a life: nobody can tell them, and they lose nothing but connections."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.users import ScramUpsertion
from barnabas.model.config import Password
from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from tests.peers.maven import clients_classpath, compiled, java
from tests.server.frames import port_of

from .nodes import SHORT, killed, listener_bean, session_settings

pytestmark = pytest.mark.peer

_SOURCE: Final = Path(__file__).resolve().parent / "java" / "Sender.java"
_BUILT_AGAINST: Final = "2.3.1"
_MODULES: Final = "org.apache.kafka.common.security"
KILLS: Final = 3
LIFE_MS: Final = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = session_settings(listener__name__short__connections__max__reauth__ms=str(LIFE_MS))
    with Cluster(tmp_path_factory.mktemp("old-java"), settings) as found:
        yield found


class Sender:
    """A producer of some release at work; end it."""

    def __init__(self, release: str, settings: Path, topic: str) -> None:
        classes = compiled(_SOURCE, clients_classpath(_BUILT_AGAINST))
        options = ["-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._process = subprocess.Popen(
            [java(), *options, "-cp", f"{clients_classpath(release)}:{classes}", "Sender", str(settings), topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def send(self, value: str) -> str:
        """Send a record; gives its offset, or what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(value + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """End it, however it is."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.mark.requirement("R-11", "H-36")
@pytest.mark.parametrize(
    ("release", "mechanism"),
    [
        ("0.11.0.3", "SCRAM-SHA-256"),  # SaslHandshake v0, and tokens without a header: before KIP-152
        ("0.11.0.3", "PLAIN"),
        ("1.1.1", "PLAIN"),  # SaslAuthenticate v0
        ("2.1.1", "SCRAM-SHA-512"),
    ],
)
def test_a_java_producer_of_old_is_cut_off_each_life_and_loses_no_record(
    cluster: Cluster, tmp_path: Path, release: str, mechanism: str
) -> None:
    topic = f"old-{release}-{mechanism.lower()}"
    cluster.create_topic(topic)
    user, password, module = "root", "root-secret", f"{_MODULES}.plain.PlainLoginModule"
    if mechanism != "PLAIN":
        user, password, module = topic, "its-secret", f"{_MODULES}.scram.ScramLoginModule"
        asyncio.run(add(cluster, ScramUpsertion(user, mechanism, Password(password))))
        User(cluster, user, "").allow("write", "topic", topic)
    settings = tmp_path / "sender.properties"
    settings.write_text(
        f"bootstrap.servers=127.0.0.1:{port_of(cluster, SHORT)}\n"
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        "acks=all\nretries=10\nretry.backoff.ms=10\nreconnect.backoff.ms=10\nmax.in.flight.requests.per.connection=1\n",
        encoding="utf-8",
    )
    before, kills = listener_bean(cluster, SHORT), killed(cluster)
    sender = Sender(release, settings, topic)
    sent = 0
    try:
        # Each was stored once, and none went under with a connection.
        while killed(cluster) < kills + KILLS:
            assert sender.send(f"{sent}") == f"{sent}"
            sent += 1
    finally:
        sender.end()
    assert sent > KILLS
    after = listener_bean(cluster, SHORT)
    more = {name: after[f"{name}-total"] - before[f"{name}-total"] for name in NAMES}
    assert more["successful-authentication-no-reauth"] == more["successful-authentication"] >= KILLS
    assert more["successful-reauthentication"] == more["failed-reauthentication"] == 0
    assert more["failed-authentication"] == 0


NAMES: Final = (
    "successful-authentication",
    "successful-authentication-no-reauth",
    "failed-authentication",
    "successful-reauthentication",
    "failed-reauthentication",
)


async def add(cluster: Cluster, wanted: ScramUpsertion) -> None:
    """Give somebody a credential."""
    async with Admin(cluster.admin.barnabas) as admin:
        assert await admin.alter_scram([wanted]) == {wanted.user: None}
