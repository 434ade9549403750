"""Who we are to a real ZooKeeper, by JAAS files and Kafka's keys, and what is said when it does not believe us."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.core.zookeeper.errors import AuthFailedError, ConnectionLossError, LoginRequiredError, NoAuthError
from barnabas.core.zookeeper.values import CREATOR_ALL, OPEN_ACLS, READABLE, SessionState, ZnodeId
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.net.zookeeper.logins import DigestLogin
from tests.peers.zookeeper import Setup, ZooKeeper

from .seen import Seen

pytestmark = pytest.mark.peer
WRONG = [DigestLogin("kafka", "wrong"), DigestLogin("nobody", "nobody-pw")]
KAFKA = ZnodeId("sasl", "kafka")


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Give a server that keeps whom it does not believe."""
    setup = Setup(flags=("zookeeper.allowSaslFailedClients=true",))
    with ZooKeeper(tmp_path_factory.mktemp("lenient"), setup=setup) as found:
        yield found


@pytest.fixture(scope="module")
def demanding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Give a server that wants a login from everybody."""
    setup = Setup(flags=("zookeeper.sessionRequireClientSASLAuth=true",))
    with ZooKeeper(tmp_path_factory.mktemp("demanding"), setup=setup) as found:
        yield found


def from_keys(zookeeper: ZooKeeper, options: str, **more: str) -> ZooKeeperClient:
    """Give a client as a broker or a tool makes it. options: in KAFKA_OPTS."""
    properties = {"zookeeper.connect": zookeeper.connect, "zookeeper.session.timeout.ms": "30000"}
    properties |= {key.replace("__", "."): value for key, value in more.items()}
    return ZooKeeperClient(zookeeper_settings(properties, {"KAFKA_OPTS": options}))


def login_config(path: Path) -> str:
    return f"-Djava.security.auth.login.config={path}"


@pytest.mark.requirement("Z-01", "Z-02")
async def test_a_jaas_file_in_kafka_opts_logs_us_in(zookeeper: ZooKeeper) -> None:
    before = zookeeper.logins().count("client")
    async with from_keys(zookeeper, login_config(zookeeper.client_jaas("client"))) as client:
        assert await client.authenticated_id() == ZnodeId("sasl", "client")
        assert client.login_failure == ""
        assert zookeeper.logins().count("client") == before + 1


@pytest.mark.requirement("Z-19")
async def test_the_section_is_client_or_another_one(zookeeper: ZooKeeper) -> None:
    named = zookeeper.client_jaas("other", "ToolsOfOurs")
    async with from_keys(zookeeper, login_config(zookeeper.client_jaas("kafka"))) as client:
        assert await client.authenticated_id() == KAFKA
    async with from_keys(zookeeper, f"{login_config(named)} -Dzookeeper.sasl.clientconfig=ToolsOfOurs") as client:
        assert await client.authenticated_id() == ZnodeId("sasl", "other")
    async with from_keys(zookeeper, login_config(named)) as client:
        assert await client.authenticated_id() is None


@pytest.mark.requirement("Z-18")
async def test_logins_can_be_turned_off(zookeeper: ZooKeeper) -> None:
    before = zookeeper.logins()
    options = f"{login_config(zookeeper.client_jaas())} -Dzookeeper.sasl.client=false"
    async with from_keys(zookeeper, options) as client:
        assert await client.authenticated_id() is None
        assert client.login_failure == ""
    assert zookeeper.logins() == before


@pytest.mark.requirement("Z-09")
async def test_without_a_jaas_file_we_are_nobody(zookeeper: ZooKeeper, chroot: str) -> None:
    before = zookeeper.logins()
    async with from_keys(zookeeper, "-Xmx1G") as client:
        assert await client.authenticated_id() is None
        await client.create(chroot, b"", OPEN_ACLS)
        assert (await client.acls(chroot))[0] == OPEN_ACLS
    assert zookeeper.logins() == before
    async with ZooKeeperClient(zookeeper.settings("other")) as other:
        await other.delete(chroot)


@pytest.mark.requirement("Z-02", "Z-20")
@pytest.mark.parametrize("login", WRONG)
async def test_a_refused_login_fails_the_start(zookeeper: ZooKeeper, login: DigestLogin) -> None:
    client = ZooKeeperClient(zookeeper.settings(login=login))
    seen = Seen(client)
    with pytest.raises(AuthFailedError) as caught:
        await client.start()
    assert f"the login of DIGEST-MD5 user {login.username} at ZooKeeper {zookeeper.connect} was refused" in str(
        caught.value
    )
    assert "check username and password in the JAAS file" in str(caught.value)
    assert login.password not in str(caught.value)
    assert seen.states == [SessionState.LOGIN_FAILED, SessionState.CLOSED]


@pytest.mark.requirement("Z-21")
@pytest.mark.parametrize("login", WRONG)
async def test_a_login_that_is_not_believed_is_told_where_the_server_stays(
    lenient: ZooKeeper, chroot: str, login: DigestLogin
) -> None:
    client = ZooKeeperClient(lenient.settings(login=login))
    seen = Seen(client)
    async with ZooKeeperClient(lenient.settings()) as owner, client:
        await owner.create(chroot, b"", (CREATOR_ALL, READABLE))
        assert seen.states == [SessionState.LOGIN_FAILED, SessionState.CONNECTED]
        assert f"user {login.username} at ZooKeeper {lenient.connect} was not accepted" in seen.events[0].detail
        assert client.login_failure == seen.events[0].detail
        assert await client.authenticated_id() is None
        with pytest.raises(NoAuthError, match=f"^{chroot}: its ACL does not allow this"):
            await client.set(chroot, b"")
        assert owner.login_failure == ""
        await owner.delete(chroot)


async def test_who_wants_a_login_from_everybody_gets_it(demanding: ZooKeeper) -> None:
    async with ZooKeeperClient(demanding.settings()) as client:
        assert await client.authenticated_id() == KAFKA
    for login in WRONG:
        with pytest.raises(AuthFailedError, match="was refused"):
            await ZooKeeperClient(demanding.settings(login=login)).start()
    async with ZooKeeperClient(demanding.settings(None)) as nobody:
        with pytest.raises(LoginRequiredError, match=r"set java\.security\.auth\.login\.config to a JAAS file"):
            await nobody.exists("/")


async def test_a_server_that_knows_no_logins_serves_us_as_nobody(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path, setup=Setup(secured=False)) as unsecured:
        async with ZooKeeperClient(unsecured.settings()) as client:
            assert "was not accepted, and we are served as nobody" in client.login_failure
            await client.create("/a", b"", OPEN_ACLS)


@pytest.mark.requirement("Z-26")
async def test_each_client_is_who_it_is_for_itself(zookeeper: ZooKeeper, chroot: str) -> None:
    secure, other, nobody = (ZooKeeperClient(zookeeper.settings(user)) for user in ("kafka", "other", None))
    async with secure, nobody, other:
        assert [await one.authenticated_id() for one in (secure, other, nobody)] == [
            KAFKA,
            ZnodeId("sasl", "other"),
            None,
        ]
        await secure.create(chroot, b"", (CREATOR_ALL, READABLE))
        for refused in (other, nobody):
            with pytest.raises(NoAuthError):
                await refused.set(chroot, b"")
        await secure.set(chroot, b"")
        await nobody.create(f"{chroot}-open", b"", OPEN_ACLS)
        assert (await secure.acls(f"{chroot}-open"))[0] == OPEN_ACLS
        await secure.delete(chroot)


async def test_tls_where_none_is_spoken_fails_the_start(zookeeper: ZooKeeper) -> None:
    client = from_keys(zookeeper, "-Dzookeeper.client.secure=true", zookeeper__connection__timeout__ms="2000")
    with pytest.raises(ConnectionLossError, match="no connection to ZooKeeper"):
        await client.start()
    assert replace(client.settings, tls=None).tls is None
