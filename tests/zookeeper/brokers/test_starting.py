"""A broker process that cannot start says why in one sentence, and one that loses ZooKeeper comes back by itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from barnabas.core.zookeeper.values import CREATOR_ALL, OPEN_ACLS, READABLE
from barnabas.model.config import format_properties
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.testing.ports import HOST, free_ports
from tests.peers.eventually import eventually
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import USERS, Setup, ZooKeeper

from .traffic import Traffic

pytestmark = pytest.mark.peer

START: Final = "import sys; from barnabas.cli.main import main; main()"
WITHOUT_KAZOO: Final = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "kazoo":
            raise ModuleNotFoundError("No module named 'kazoo'", name="kazoo")
sys.meta_path.insert(0, Missing())
{START}
"""
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
SESSION_MS: Final = 2000
"""Of a broker that is to lose its session."""
STARTING_MS: Final = 4000
"""Of those that try to start: twice as long they wait for another one with their id to go."""
WAIT_S: Final = 60


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Give a server that keeps connections whose login it does not like."""
    setup = Setup(flags=("zookeeper.allowSaslFailedClients=true",))
    with ZooKeeper(tmp_path_factory.mktemp("lenient"), setup=setup) as found:
        yield found


def file_of(folder: Path, connect: str, **more: str) -> Path:
    """Write a server.properties. more: keys with _ in place of dots."""
    (port,) = free_ports(1)
    rows = {
        "broker.id": "7",
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": str(STARTING_MS),
        "zookeeper.connection.timeout.ms": "60000",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(folder / "data"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    path = folder / "server.properties"
    path.write_text(format_properties(rows))
    return path


def jaas_of(folder: Path, user: str, password: str) -> Path:
    path = folder / "jaas.conf"
    path.write_text(f'Client {{ {_DIGEST} required username="{user}" password="{password}"; }};\n')
    return path


def refusal(file: Path, jaas: Path | None = None, program: str = START) -> str:
    """Run the broker until it gives up; give what it says in the end."""
    environment: Mapping[str, str] = {**os.environ, "COLUMNS": "2000"}
    if jaas is not None:
        environment = {**environment, "KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}
    run = subprocess.run(
        [sys.executable, "-c", program, "run", str(file)],
        capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
    return run.stderr.strip().splitlines()[-1]


def test_nobody_answers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    said = refusal(file_of(tmp_path, f"{HOST}:{port}", zookeeper_connection_timeout_ms="500"))
    assert f"no connection to ZooKeeper at {HOST}:{port} within 500 ms" in said


@pytest.mark.requirement("Z-20")
@pytest.mark.parametrize("set_acl", ["true", "false"])
def test_a_wrong_password_ends_the_start(zookeeper: ZooKeeper, chroot: str, tmp_path: Path, set_acl: str) -> None:
    file = file_of(tmp_path, zookeeper.connect + chroot, zookeeper_set_acl=set_acl)
    said = refusal(file, jaas_of(tmp_path, "kafka", "not it"))
    assert f"the login of DIGEST-MD5 user kafka at ZooKeeper {zookeeper.connect} was refused" in said
    assert "not it" not in said


@pytest.mark.requirement("Z-21")
def test_who_is_not_believed_does_not_make_strict_znodes(lenient: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    file = file_of(tmp_path, lenient.connect + chroot, zookeeper_set_acl="true")
    said = refusal(file, jaas_of(tmp_path, "kafka", "not it"))
    assert "user kafka" in said
    assert "was not accepted" in said


@pytest.mark.requirement("Z-21")
def test_who_is_not_believed_does_not_write_strict_znodes(lenient: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    async def strict() -> None:
        async with ZooKeeperClient(lenient.settings("kafka", chroot)) as zk:
            await zk.make_chroot(OPEN_ACLS)
            for path in ("/brokers", "/brokers/ids"):
                await zk.create(path, None, (CREATOR_ALL, READABLE))

    asyncio.run(strict())
    said = refusal(file_of(tmp_path, lenient.connect + chroot), jaas_of(tmp_path, "kafka", "not it"))
    assert "/brokers/ids" in said
    assert "sasl:kafka" in said


@pytest.mark.requirement("Z-21")
def test_who_is_not_believed_and_needs_not_be_serves_and_says_so(
    lenient: ZooKeeper, chroot: str, tmp_path: Path
) -> None:
    jaas = jaas_of(tmp_path, "kafka", "not it")
    with ZooKeeperBroker(tmp_path, lenient.connect + chroot, jaas, ours=True) as broker:
        assert "was not accepted, and we are served as nobody" in broker.process.whole_log()


@pytest.mark.requirement("Z-09")
def test_without_a_jaas_file_all_znodes_are_open(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    before = zookeeper.logins()
    with ZooKeeperBroker(tmp_path, zookeeper.connect + chroot, ours=True):
        assert zookeeper.logins() == before

        async def acls() -> set[object]:
            async with ZooKeeperClient(zookeeper.settings(None, chroot)) as zk:
                found = [(await zk.acls(path))[0] for path in ("/", "/brokers/ids/0", "/controller", "/config/users")]
                return set(found)

        assert asyncio.run(acls()) == {OPEN_ACLS}


def test_the_id_of_another_broker_is_taken(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    with ZooKeeperBroker(tmp_path / "first", zookeeper.connect + chroot, ours=True, broker_id=7) as first:
        said = refusal(file_of(tmp_path, zookeeper.connect + chroot))
        assert "another broker is registered as 7 at /brokers/ids/7: give this one another broker.id" in said
        first.process.check()


def test_the_extra_is_missing(tmp_path: Path) -> None:
    said = refusal(file_of(tmp_path, f"{HOST}:1"), program=WITHOUT_KAZOO)
    assert "zookeeper.connect is set, and kazoo is not installed: pip install 'barnabas[zookeeper]'" in said


class TestABrokerThatServes:
    """Its ZooKeeper is its own; records are written and read all the time."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[ZooKeeper]:
        with ZooKeeper(tmp_path / "zookeeper") as found:
            yield found

    @pytest.fixture
    def broker(self, server: ZooKeeper, tmp_path: Path) -> Iterator[ZooKeeperBroker]:
        properties = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
        broker = ZooKeeperBroker(
            tmp_path / "broker", server.connect, server.client_jaas(), set_acl=True, ours=True, properties=properties
        )
        with broker:
            yield broker

    @pytest.mark.requirement("H-33")
    def test_it_outlives_its_zookeeper_its_session_and_its_login(
        self, server: ZooKeeper, broker: ZooKeeperBroker
    ) -> None:
        with Traffic(broker.librdkafka(), "kept") as traffic:
            traffic.go_on()
            server.nodes[0].restart(kill=True)
            traffic.go_on()
            before = asyncio.run(registered(server))
            broker.process.pause()
            asyncio.run(eventually(lambda: registered(server), 0, WAIT_S))
            broker.process.resume()
            asyncio.run(registered_after(server, before))
            traffic.go_on()
            before = asyncio.run(registered(server))
            server.roll(Setup(users=USERS | {"kafka": "another password"}))
            asyncio.run(eventually(lambda: registered(server), 0, WAIT_S))  # it is refused for longer than it lasts
            server.roll(Setup())
            asyncio.run(registered_after(server, before))
            traffic.go_on()
            traffic.caught_up()
        assert "was refused" in broker.process.whole_log()


async def registered(server: ZooKeeper) -> int:
    """Give the epoch of the broker's registration, 0 while there is none.

    As nobody: ZooKeeper checks logins by DIGEST-MD5 that come at once against each other's names, and a broker that
    tries again and again with a wrong password would have ours refused.
    """
    async with ZooKeeperClient(server.settings(None)) as zk:
        stat = await zk.exists("/brokers/ids/0")
        return 0 if stat is None else stat.czxid


async def registered_after(server: ZooKeeper, before: int) -> None:
    async def is_new() -> bool:
        return await registered(server) > before

    await eventually(is_new, True, WAIT_S)
