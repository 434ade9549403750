"""Who the tool is: by a TLS key, beside Kafka's own tool, and by Kerberos names with hosts in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.config import load_properties_file
from barnabas.core.zookeeper.values import CREATOR_ALL, READABLE
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from tests.cli.conftest import Barnabas
from tests.kerberos.kdc import REALM, Kdc, by_key_table
from tests.peers.kafka import TlsFiles
from tests.peers.kafka_zookeeper import kafkas_migration
from tests.peers.zookeeper import SERVICE, Setup, ZooKeeper
from tests.zookeeper.migration.conftest import COMMAND
from tests.zookeeper.migration.trees import plant, read_acls

pytestmark = pytest.mark.peer

CHROOT = "/kafka"
ONE, TWO = "kafka/one.example", "kafka/two.example"


@pytest.mark.requirement("Z-13")
def test_a_tls_key_is_a_login_as_for_kafkas_tool(
    barnabas: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = TlsFiles.make(tmp_path / "tls")
    file = tmp_path / "tls.properties"
    file.write_text(
        "zookeeper.ssl.client.enable=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.keystore.location={tls.client_store}\n"
        f"zookeeper.ssl.truststore.location={tls.ca}\n"
    )
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    with ZooKeeper(tmp_path / "zookeeper", setup=Setup(tls=tls)) as own:
        plant(own, CHROOT)
        where = f"{own.tls_connect}{CHROOT}"
        for mode in ("secure", "unsecure"):
            run = barnabas(COMMAND, f"--zookeeper.acl={mode}", f"--zookeeper.connect={where}",
                           f"--zk-tls-config-file={file}", f"--undo-file={tmp_path / mode}")  # fmt: skip
            assert run.code == 0, run.err
            settings = zookeeper_settings(load_properties_file(file) | {"zookeeper.connect": where})
            ours = asyncio.run(read_acls(settings))
            theirs = kafkas_migration(mode, where, None, f"--zk-tls-config-file={file}")
            assert theirs.returncode == 0, theirs.stdout + theirs.stderr
            assert asyncio.run(read_acls(settings)).items() >= ours.items()
            assert ("x509:CN=client.example" in ours["/brokers"]) is (mode == "secure")


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    """Give a realm with two brokers, each with its host in its name."""
    with Kdc(tmp_path / "kdc") as found:
        for key, value in found.environment.items():
            monkeypatch.setenv(key, value)
        for name in (SERVICE, ONE, TWO):
            found.principal(name)
        yield found


def jaas_of(kdc: Kdc, name: str) -> Path:
    """Give the JAAS file of a principal."""
    path = kdc.folder / f"{name.partition('/')[2]}.jaas"
    table = kdc.folder / f"{name.replace('/', '%2F')}.keytab"
    path.write_text(f"Client {{ {by_key_table(str(table), name)} }};\n")
    return path


@pytest.mark.requirement("H-34", "Z-15")
@pytest.mark.parametrize("short_names", [False, True])
def test_brokers_with_hosts_in_their_names_lock_each_other_out_unless_the_ensemble_strips_them(
    barnabas: Barnabas, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_names: bool
) -> None:
    setup = Setup(kdc=kdc, short_names=short_names)
    with ZooKeeper(tmp_path / "zookeeper", setup=setup) as own:
        plant(own, CHROOT, user=None)

        where = f"{own.connect}{CHROOT}"

        def login(name: str) -> None:
            monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas_of(kdc, name)}")

        login(TWO)
        asyncio.run(make_strict(where))
        login(ONE)
        words = (f"--zookeeper.connect={where}", "--zookeeper.acl=secure", f"--undo-file={tmp_path / 'undo'}")
        run = barnabas(COMMAND, *words)
        if short_names:
            assert run.code == 0, run.err
            return
        assert run.code == 1
        assert f"They are of sasl:{TWO}@{REALM}. ZooKeeper strips both with" in run.err
        assert "Nothing was changed" in run.err


async def make_strict(where: str) -> None:
    """Make a znode as a broker with the login of the environment does."""
    async with ZooKeeperClient(zookeeper_settings({"zookeeper.connect": where})) as zk:
        await zk.create("/brokers/topics/strict", b"{}", [CREATOR_ALL, READABLE])
