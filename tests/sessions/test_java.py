"""Java's clients against sessions of ours that end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.producer import Producer
from barnabas.model.config import Password
from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from tests.clients.nodes import until
from tests.peers.maven import compiled, java, kafka_classpath
from tests.peers.tools import PRODUCER_PERFORMANCE, run_tool_result
from tests.server.frames import port_of

from .nodes import LONG, WorkingClock, killed, listener_bean, session_settings

pytestmark = pytest.mark.peer

_RECEIVER: Final = Path(__file__).resolve().parent / "java" / "Receiver.java"
_LOGGING: Final = Path(__file__).resolve().parents[1] / "peers" / "log4j2-tools.properties"
LIFE_MS: Final = 3000
SECONDS: Final = 7
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    keys = [f"listener__name__long__{more}connections__max__reauth__ms" for more in ("", "plain__")]
    settings = session_settings(**dict.fromkeys(keys, str(LIFE_MS)))
    with WorkingClock() as clock, Cluster(tmp_path_factory.mktemp("java"), settings, conduct=clock) as found:
        yield found


def client_file(folder: Path, cluster: Cluster, mechanism: str, user: str, password: str) -> Path:
    path = folder / "client.properties"
    path.write_text(
        f"bootstrap.servers=127.0.0.1:{port_of(cluster, LONG)}\n"
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={_MODULES[mechanism]} required username="{user}" password="{password}";\n'
        "acks=all\nlinger.ms=0\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.requirement("R-13")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_producer_keeps_its_connections_over_several_lives(
    cluster: Cluster, tmp_path: Path, mechanism: str
) -> None:
    topic = f"java-{mechanism.lower()}"
    cluster.create_topic(topic)
    user, password = "root", "root-secret"
    if mechanism != "PLAIN":
        user, password = f"of-{mechanism.lower()}", "its-secret"
        await add(cluster, user, mechanism, password)
        allow(cluster, user, topic)
    before, kills = listener_bean(cluster, LONG), killed(cluster)
    config = client_file(tmp_path, cluster, mechanism, user, password)
    records = SECONDS * 40
    done = await asyncio.to_thread(
        run_tool_result,
        PRODUCER_PERFORMANCE, "--topic", topic, "--num-records", str(records), "--record-size", "20",
        "--throughput", "40", "--command-config", str(config),
    )  # fmt: skip
    assert done.code == 0, done
    assert f"{records} records sent" in done.stdout
    after = listener_bean(cluster, LONG)
    more = {name: after[name] - before[name] for name in before if name.endswith("-total")}
    # One connection to find out, one to produce to; the second lives through several sessions.
    assert more["connection-creation-total"] <= 2
    assert more["successful-reauthentication-total"] >= 2
    assert more["failed-reauthentication-total"] == more["failed-authentication-total"] == 0
    assert more["successful-authentication-no-reauth-total"] == 0
    assert killed(cluster) == kills


async def add(cluster: Cluster, user: str, mechanism: str, password: str) -> None:
    """Give somebody a SCRAM credential, or another one."""
    async with Admin(cluster.admin.barnabas) as admin:
        wanted = ScramUpsertion(user, mechanism, Password(password))
        assert await admin.alter_scram([wanted]) == {user: None}


def allow(cluster: Cluster, user: str, topic: str) -> None:
    """Let somebody use a topic, and a group of its name."""
    rules = User(cluster, user, "")
    for operation in ("read", "write", "describe"):
        rules.allow(operation, "topic", topic)
    rules.allow("read", "group", topic)


@pytest.mark.requirement("R-14")
async def test_a_producer_is_told_when_it_cannot_renew_its_session(cluster: Cluster, tmp_path: Path) -> None:
    topic, mechanism, user = "java-refused", "SCRAM-SHA-512", "changing"
    cluster.create_topic(topic)
    await add(cluster, user, mechanism, "first-secret")
    allow(cluster, user, topic)
    config = client_file(tmp_path, cluster, mechanism, user, "first-secret")
    with config.open("a", encoding="utf-8") as more:
        more.write("max.block.ms=50\nreconnect.backoff.max.ms=100\nrequest.timeout.ms=2000\ndelivery.timeout.ms=3000\n")
    logins, failures = "successful-authentication-total", "failed-reauthentication-total"
    before = listener_bean(cluster, LONG)
    running = asyncio.create_task(
        asyncio.to_thread(
            run_tool_result,
            PRODUCER_PERFORMANCE, "--topic", topic, "--num-records", "400", "--record-size", "20",
            "--throughput", "20", "--command-config", str(config),
        )
    )  # fmt: skip
    # Its connections stand, and the next that it hears of its password is that it is wrong: what it writes then is not
    # delivered. It writes for twenty seconds, since a busy machine may come to this late.
    await asyncio.to_thread(
        until, lambda: listener_bean(cluster, LONG)[logins], lambda count: count >= before[logins] + 2, 60
    )
    await add(cluster, user, mechanism, "second-secret")
    done = await running
    assert "SaslAuthenticationException" in done.stdout + done.stderr
    assert listener_bean(cluster, LONG)[failures] > before[failures]


@pytest.mark.requirement("R-14")
async def test_a_consumer_is_told_when_it_cannot_renew_its_session(cluster: Cluster, tmp_path: Path) -> None:
    topic, mechanism, user = "java-told", "SCRAM-SHA-512", "reading"
    cluster.create_topic(topic)
    await add(cluster, user, mechanism, "first-secret")
    allow(cluster, user, topic)
    config = client_file(tmp_path, cluster, mechanism, user, "first-secret")
    with config.open("a", encoding="utf-8") as more:
        more.write(f"group.id={topic}\nauto.offset.reset=earliest\n")
    async with Producer(cluster.admin.barnabas) as producer:
        await (await producer.send(topic, b"first"))
    before = listener_bean(cluster, LONG)["failed-reauthentication-total"]
    classes = compiled(_RECEIVER)
    receiver = await asyncio.create_subprocess_exec(
        java(), "-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={_LOGGING}",
        "-cp", f"{kafka_classpath()}:{classes}", "Receiver", str(config), topic,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert receiver.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await receiver.stdout.readline() == b"0\n"
            await add(cluster, user, mechanism, "second-secret")
            assert await receiver.stdout.readline() == b"SaslAuthenticationException\n"
            assert await receiver.wait() == 0
    finally:
        if receiver.returncode is None:
            receiver.kill()
            await receiver.wait()
    assert listener_bean(cluster, LONG)["failed-reauthentication-total"] > before
