"""A node finds out at its start whether the znodes that are there are its own, and which are everybody's."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.core.zookeeper.access import NEEDED_FOR_RULES
from barnabas.core.zookeeper.security import acls_for
from barnabas.core.zookeeper.values import CREATOR_ALL, OPEN_ACLS, READABLE, Permission, ZnodeAcl
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.net.zookeeper.config_keys import NETTY_SOCKET
from barnabas.server.zookeeper.access import ZooKeeperAccessError, check_access, warn_of_open_znodes
from barnabas.server.zookeeper.election import Election
from barnabas.server.zookeeper.layout import make_layout
from tests.cli.conftest import Barnabas, barnabas
from tests.kerberos.kdc import REALM, Kdc, by_key_table
from tests.peers.kafka import TlsFiles
from tests.peers.zookeeper import SERVICE, Setup, ZooKeeper, four_letters
from tests.zookeeper.controllers import STRICT

__all__ = ["barnabas"]
pytestmark = pytest.mark.peer

LOOSE = partial(acls_for, secure=False)


async def do_as_told(barnabas: Barnabas, message: str, jaas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the command that a message ends with, or that it says closes something, logged in by a JAAS file."""
    command = message.partition(" barnabas ")[2].partition(" closes them")[0]
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    monkeypatch.chdir(jaas.parent)
    run = await asyncio.to_thread(barnabas, *shlex.split(command), f"--undo-file={jaas}.undo")
    assert run.code == 0, run.err


async def lay_out(zk: ZooKeeperClient, *, secure: bool = True) -> None:
    """Make what a cluster with one broker so far has."""
    acls = STRICT if secure else LOOSE
    await make_layout(zk, acls, rules=True, tokens=True)
    if await zk.exists("/controller_epoch") is None:
        await zk.create("/controller_epoch", b"1", acls("/controller_epoch"))


@pytest.mark.requirement("H-34")
async def test_our_own_znodes_open_ones_and_none_at_all_let_us_begin(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as zk:
        await check_access(zk, set_acl=True)
        await lay_out(zk)
        await check_access(zk, set_acl=True)
    async with ZooKeeperClient(zookeeper.settings("super", chroot)) as zk:
        await check_access(zk, set_acl=True)
    async with ZooKeeperClient(zookeeper.settings(None, f"{chroot}-open")) as zk:
        await lay_out(zk, secure=False)
        await check_access(zk, set_acl=False)


@pytest.mark.requirement("H-34")
async def test_znodes_of_somebody_else_stop_us_until_we_are_granted_rights(
    zookeeper: ZooKeeper, chroot: str, barnabas: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as owner:
        await lay_out(owner)
        async with ZooKeeperClient(zookeeper.settings("other", chroot)) as zk:
            with pytest.raises(ZooKeeperAccessError) as refused:
                await check_access(zk, set_acl=True)
            told = str(refused.value)
            assert "to ZooKeeper this node is sasl:other, and has no right to go on at /, /brokers/ids" in told
            assert "/controller_epoch" in told
            assert "and 1 more, of sasl:kafka. " in told
            assert f"--zookeeper.acl=secure --zookeeper.connect={zookeeper.connect}{chroot} --grant sasl:other" in told
            for path in ("/", "/brokers/ids", "/brokers/topics", "/controller_epoch", "/config/changes"):
                await owner.set_acls(path, [CREATOR_ALL, ZnodeAcl(Permission.ALL, "sasl", "other"), READABLE])
            # What is secret says nothing of itself to others.
            with pytest.raises(
                ZooKeeperAccessError, match="go on at /config/users, and may not even see whose they are"
            ):
                await check_access(zk, set_acl=True)
            jaas = Path(shutil.copy(zookeeper.client_jaas(), tmp_path))
            await do_as_told(barnabas, told, jaas, monkeypatch)
            await check_access(zk, set_acl=True)


@pytest.mark.requirement("H-34")
async def test_who_may_write_but_not_stand_for_election_is_stopped(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as owner:
        await lay_out(owner, secure=False)
        await owner.set_acls("/", [CREATOR_ALL, READABLE])
        async with ZooKeeperClient(zookeeper.settings("other", chroot)) as zk:
            with pytest.raises(ZooKeeperAccessError, match="no right to go on at /, of sasl:kafka"):
                await check_access(zk, set_acl=False)


@pytest.mark.requirement("H-34", "A-34")
async def test_who_keeps_rules_alone_needs_rights_to_these(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as owner:
        await lay_out(owner, secure=False)
        await owner.set_acls("/brokers/ids", [CREATOR_ALL, READABLE])
        async with ZooKeeperClient(zookeeper.settings("other", chroot)) as zk:
            await check_access(zk, set_acl=True, needed=NEEDED_FOR_RULES)
            await owner.set_acls("/kafka-acl-changes", [CREATOR_ALL, READABLE])
            with pytest.raises(ZooKeeperAccessError, match=r"go on at /kafka-acl-changes, of sasl:kafka\."):
                await check_access(zk, set_acl=True, needed=NEEDED_FOR_RULES)


@pytest.mark.requirement("H-34")
async def test_nobody_is_told_to_log_in(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(None, chroot)) as zk:
        await zk.make_chroot(OPEN_ACLS)
        await check_access(zk, set_acl=False)
        with pytest.raises(ZooKeeperAccessError, match=r"zookeeper.set.acl is true, but .* nobody.* There is no login"):
            await check_access(zk, set_acl=True)
    async with ZooKeeperClient(zookeeper.settings(chroot=f"{chroot}-strict")) as owner:
        await lay_out(owner)
        async with ZooKeeperClient(zookeeper.settings(None, f"{chroot}-strict")) as zk:
            with pytest.raises(
                ZooKeeperAccessError, match=r"this node is nobody.*of sasl:kafka. Log in as the brokers"
            ):
                await check_access(zk, set_acl=False)


@pytest.mark.requirement("H-34")
async def test_a_login_that_zookeeper_does_not_believe_owns_nothing(tmp_path: Path) -> None:
    setup = Setup(users={"kafka": "another"}, flags=["zookeeper.allowSaslFailedClients=true"])
    with ZooKeeper(tmp_path, setup=setup) as own:
        async with ZooKeeperClient(own.settings()) as zk:
            with pytest.raises(ZooKeeperAccessError, match=r"nobody, who can own no znode. .*user kafka"):
                await check_access(zk, set_acl=True)


@pytest.mark.requirement("H-34")
async def test_one_of_two_ids_is_enough(tmp_path: Path) -> None:
    tls = TlsFiles.make(tmp_path / "tls")
    with ZooKeeper(tmp_path / "zookeeper", setup=Setup(tls=tls)) as own:
        settings = zookeeper_settings({
            "zookeeper.connect": own.tls_connect,
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY_SOCKET,
            "zookeeper.ssl.keystore.location": str(tls.client_store),
            "zookeeper.ssl.truststore.location": str(tls.ca),
        }, {})  # fmt: skip
        both = replace(settings, login=own.settings().login)
        for chroot, first in (("/of-x509", settings), ("/of-sasl", own.settings())):
            async with ZooKeeperClient(replace(first, chroot=chroot)) as owner:
                await lay_out(owner)
            async with ZooKeeperClient(replace(both, chroot=chroot)) as zk:
                assert {one.scheme for one in await zk.authenticated_ids()} == {"sasl", "x509"}
                await check_access(zk, set_acl=True)
        async with ZooKeeperClient(replace(settings, chroot="/of-sasl")) as zk:
            with pytest.raises(ZooKeeperAccessError, match=r"is x509:CN=client.example.* of sasl:kafka"):
                await check_access(zk, set_acl=True)


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    """Give a realm with two brokers, each with its host in its name."""
    with Kdc(tmp_path / "kdc") as found:
        for key, value in found.environment.items():
            monkeypatch.setenv(key, value)
        for name in (SERVICE, "kafka/one.example", "kafka/two.example"):
            found.principal(name)
        yield found


@pytest.mark.requirement("H-34")
async def test_kerberos_names_with_hosts_are_told_of_before_they_lock_anybody_out(
    kdc: Kdc, tmp_path: Path, barnabas: Barnabas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broker(host: str) -> ZooKeeperClient:
        table = kdc.folder / f"kafka%2F{host}.keytab"
        jaas = tmp_path / f"{host}.jaas"
        jaas.write_text(f"Client {{ {by_key_table(str(table), f'kafka/{host}')} }};\n")
        properties = {"zookeeper.connect": f"{own.connect}/kafka"}
        return ZooKeeperClient(
            zookeeper_settings(properties, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"})
        )

    with ZooKeeper(tmp_path / "zookeeper", setup=Setup(kdc=kdc, short_names=False)) as own:
        async with broker("one.example") as one, broker("two.example") as two:
            await lay_out(one)
            await check_access(one, set_acl=True)
            with pytest.raises(ZooKeeperAccessError) as refused:
                await check_access(two, set_acl=True)
            told = str(refused.value)
            assert f"this node is sasl:kafka/two.example@{REALM}" in told
            assert f"of sasl:kafka/one.example@{REALM}. " in told
            assert "-Dzookeeper.kerberos.removeHostFromPrincipal=true" in told
            assert "--grant sasl:kafka" in told
            await do_as_told(barnabas, told, tmp_path / "one.example.jaas", monkeypatch)
        await asyncio.to_thread(own.roll, replace(own.setup, short_names=True))
        async with broker("one.example") as one, broker("two.example") as two:
            for zk in (one, two):
                await check_access(zk, set_acl=True)


async def _open_topics(zk: ZooKeeperClient, count: int) -> list[str]:
    paths = [f"/brokers/topics/t{number:03}" for number in range(count)]
    for path in paths:
        await zk.create(path, b"{}", OPEN_ACLS)
    return paths


@pytest.mark.requirement("H-35")
async def test_open_znodes_are_told_of_once_with_what_closes_them(
    zookeeper: ZooKeeper, chroot: str, barnabas: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as zk:
        await lay_out(zk)
        with capture_logs() as logs:
            found = await warn_of_open_znodes(zk)
        assert (found.paths, found.whole, logs) == ([], True, [])  # /consumers is open on purpose
        paths = await _open_topics(zk, 3)
        await zk.create("/config/users/bob", b"{}", OPEN_ACLS)
        await zk.create("/brokers/topics/t000/partitions", None, OPEN_ACLS)
        with capture_logs() as logs:
            found = await warn_of_open_znodes(zk)
        assert sorted(found.paths) == sorted([*paths, "/config/users/bob", "/brokers/topics/t000/partitions"])
        (warning,) = logs
        assert warning["log_level"] == "warning"
        assert warning["event"].startswith("5 znodes can be changed by anybody: /config/users/bob, ")
        assert f"--zookeeper.acl=secure --zookeeper.connect={zookeeper.connect}{chroot} closes them" in warning["event"]
        jaas = Path(shutil.copy(zookeeper.client_jaas(), tmp_path))
        await do_as_told(barnabas, warning["event"], jaas, monkeypatch)
        assert (await warn_of_open_znodes(zk)).paths == []


def _asked(zookeeper: ZooKeeper, zk: ZooKeeperClient) -> int:
    """Give how much a session has asked of its server, as the server counts."""
    found = re.search(rf"recved=(\d+).*sid={zk.session_id:#x},", four_letters(zookeeper.ports[0], "cons"))
    assert found is not None
    return int(found[1])


@pytest.mark.requirement("H-35")
async def test_many_znodes_are_looked_at_up_to_a_limit_some_of_each_place(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as zk:
        await lay_out(zk)
        await _open_topics(zk, 300)
        for number in range(30):
            await zk.create(f"/config/topics/t{number}", b"{}", OPEN_ACLS)
        before = _asked(zookeeper, zk)
        with capture_logs() as logs:
            found = await warn_of_open_znodes(zk, 150)
        assert _asked(zookeeper, zk) - before <= 2 * 150
        assert (found.looked_at, found.whole) == (150, False)
        assert sum(path.startswith("/config/topics/") for path in found.paths) == 30
        assert f"{len(found.paths)} znodes can be changed by anybody among the 150" in logs[0]["event"]
        assert 0 < len(found.paths) < 150


@pytest.mark.requirement("H-35")
async def test_without_zookeeper_nothing_is_said_of_open_znodes(zookeeper: ZooKeeper, chroot: str) -> None:
    zk = ZooKeeperClient(zookeeper.settings(chroot=chroot))
    await zk.start()
    await zk.close()
    with capture_logs() as logs:
        await warn_of_open_znodes(zk)
    assert [one["log_level"] for one in logs] == ["info"]


async def test_what_is_needed_is_what_an_election_needs(zookeeper: ZooKeeper, chroot: str) -> None:
    """The check lets nobody pass who then cannot begin."""
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as owner:
        await lay_out(owner)
        rest = [ZnodeAcl(Permission.CREATE | Permission.READ, "sasl", "other"), CREATOR_ALL]
        for path in ("/", "/brokers/ids", "/brokers/topics", "/config/changes", "/config/users"):
            await owner.set_acls(path, rest)
        await owner.set_acls("/controller_epoch", [ZnodeAcl(Permission.WRITE, "sasl", "other"), CREATOR_ALL, READABLE])
        async with ZooKeeperClient(zookeeper.settings("other", chroot)) as zk:
            await check_access(zk, set_acl=True)
            seat = await Election(zk, 7, STRICT, lambda: 1).holder(asyncio.Event())
            assert seat.controller_id == 7
