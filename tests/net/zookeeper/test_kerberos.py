"""Kerberos at a real ZooKeeper with a real KDC: keys and tickets, their renewal, and a KDC that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from barnabas.core.zookeeper.errors import AuthFailedError
from barnabas.core.zookeeper.values import CREATOR_ALL, READABLE, SessionEvent, SessionState, ZnodeId
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from tests.kerberos.kdc import REALM, Kdc, by_key_table, by_ticket_cache
from tests.peers.zookeeper import SERVICE, Setup, ZooKeeper

from .gate import Gate
from .seen import LIMIT_S, Seen

pytestmark = pytest.mark.peer
CONNECTED, EXPIRED, LOGIN_FAILED = SessionState.CONNECTED, SessionState.EXPIRED, SessionState.LOGIN_FAILED
BRIEF_S = 8
"""How long tickets live that are to end within a test."""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with pytest.MonkeyPatch.context() as patch, Kdc(tmp_path_factory.mktemp("kdc")) as found:
        for key, value in found.environment.items():
            patch.setenv(key, value)
        found.principal("broker/localhost")
        found.principal("alice")
        found.principal(SERVICE)
        yield found


@pytest.fixture(scope="module")
def zookeeper(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper"), setup=Setup(kdc=kdc)) as found:
        yield found


@pytest.fixture
async def gate(zookeeper: ZooKeeper) -> AsyncIterator[Gate]:
    async with Gate(zookeeper.ports[0]) as found:
        yield found


def client(folder: Path, connect: str, entry: str, **more: str) -> ZooKeeperClient:
    """Give a client whose JAAS file has this entry."""
    jaas = folder / "jaas"
    jaas.write_text(f"Client {{ {entry} }};")
    properties = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": "30000"}
    properties |= {key.replace("__", "."): value for key, value in more.items()}
    return ZooKeeperClient(zookeeper_settings(properties, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}))


def keys(kdc: Kdc, name: str) -> str:
    """Give the entry of a principal that there is."""
    return by_key_table(str(kdc.folder / f"{quote(name, safe='')}.keytab"), name)


@pytest.mark.requirement("Z-01", "Z-03")
async def test_keys_log_us_in(kdc: Kdc, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    async with client(tmp_path, zookeeper.connect, keys(kdc, "broker/localhost")) as zk:
        # Host and realm are taken off by the server, so that brokers are one and the same.
        assert await zk.authenticated_id() == ZnodeId("sasl", "broker")
        await zk.create("/strict", b"", (CREATOR_ALL, READABLE))
        assert [str(acl) for acl in (await zk.acls("/strict"))[0]] == ["sasl:broker:cdrwa", "world:anyone:r"]
        await zk.delete("/strict")
    assert f"broker/localhost@{REALM}" in zookeeper.logins()


@pytest.mark.requirement("Z-03")
async def test_a_ticket_of_somebody_elses_making_will_do(kdc: Kdc, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    async with client(tmp_path, zookeeper.connect, by_ticket_cache(kdc.ticket("alice"))) as zk:
        assert await zk.authenticated_id() == ZnodeId("sasl", "alice")


@pytest.mark.requirement("Z-20")
@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (by_key_table("/nowhere", "alice"), "Key table file '/nowhere' not found"),
        (by_ticket_cache("/nowhere"), "No credentials cache found"),
    ],
)
async def test_a_login_that_cannot_be_had_fails_the_start(
    kdc: Kdc, zookeeper: ZooKeeper, tmp_path: Path, entry: str, said: str
) -> None:
    with pytest.raises(AuthFailedError, match=f"the login of GSSAPI, .* failed: .*{said}"):
        await client(tmp_path, zookeeper.connect, entry).start()


async def test_a_service_that_the_kdc_does_not_know_fails_the_start(
    kdc: Kdc, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    stranger = client(tmp_path, zookeeper.connect, keys(kdc, "alice"), zookeeper__sasl__client__username="stranger")
    with pytest.raises(AuthFailedError, match=r"stranger@localhost.* not found in Kerberos database"):
        await stranger.start()


@pytest.mark.requirement("Z-03")
async def test_the_session_outlives_its_ticket(kdc: Kdc, zookeeper: ZooKeeper, gate: Gate, tmp_path: Path) -> None:
    kdc.principal("lasting", "-maxlife", f'"{BRIEF_S} seconds"')
    zk = client(tmp_path, f"localhost:{gate.port}", keys(kdc, "lasting"))
    seen = Seen(zk)
    async with zk:
        await zk.create("/mine", b"", (CREATOR_ALL,), ephemeral=True)
        session = zk.session_id
        first = kdc.logins("lasting")
        async with asyncio.timeout(LIMIT_S):
            while kdc.logins("lasting") < first + 2:  # the ticket has been used up twice
                known = len(seen.events)
                await gate.cut()
                await seen.after(known, CONNECTED)
                assert await zk.authenticated_id() == ZnodeId("sasl", "lasting")
        assert zk.session_id == session
        assert EXPIRED not in seen.states
        await zk.set("/mine", b"still")


@pytest.mark.requirement("H-33")
async def test_a_kdc_that_is_away_for_a_while_leaves_a_living_client(
    kdc: Kdc, zookeeper: ZooKeeper, gate: Gate, tmp_path: Path
) -> None:
    kdc.principal("waiting", "-maxlife", f'"{BRIEF_S} seconds"')
    zk = client(tmp_path, f"localhost:{gate.port}", keys(kdc, "waiting"), zookeeper__session__timeout__ms="6000")
    seen = Seen(zk)
    gone = asyncio.Event()
    async with client(tmp_path, zookeeper.connect, keys(kdc, "alice")) as observer, zk:
        await zk.create("/waiting", b"", (CREATOR_ALL, READABLE), ephemeral=True)
        kdc.stop()
        try:
            refused = await until_refused(seen, gate)
            assert refused.detail.startswith("the login of GSSAPI, waiting ")
            # The session does not live by tries to log in: others see that we are gone.
            if await observer.exists("/waiting", watch=lambda _: gone.set()) is not None:
                await asyncio.wait_for(gone.wait(), LIMIT_S)
        finally:
            known = len(seen.events)
            kdc.start()
        back = await seen.after(known, CONNECTED)
        assert EXPIRED in seen.states
        assert back.session_id != refused.session_id
        assert zk.login_failure == ""
        assert await zk.authenticated_id() == ZnodeId("sasl", "waiting")
        await zk.create("/waiting", b"", (CREATOR_ALL,), ephemeral=True)


async def until_refused(seen: Seen, gate: Gate) -> SessionEvent:
    """Cut the connection until there is no ticket any more to make another one with."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            known = len(seen.events)
            await gate.cut()
            found = await seen.after(known, CONNECTED, LOGIN_FAILED)
            if found.state is LOGIN_FAILED:
                return found
