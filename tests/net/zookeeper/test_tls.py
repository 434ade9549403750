"""TLS to a real ZooKeeper, with a certificate of our own, by Kafka's `zookeeper.ssl.*` keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.core.zookeeper.errors import ConnectionLossError
from barnabas.core.zookeeper.values import CREATOR_ALL, Permission, ZnodeAcl, ZnodeId
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.net.zookeeper.config_keys import NETTY_SOCKET
from tests.peers.kafka import TlsFiles
from tests.peers.zookeeper import Setup, ZooKeeper

pytestmark = pytest.mark.peer


@dataclass
class Server:
    zookeeper: ZooKeeper
    tls: TlsFiles

    def client(self, **more: str) -> ZooKeeperClient:
        """Give a client that trusts the server and shows its certificate, unless told otherwise."""
        properties = {
            "zookeeper.connect": self.zookeeper.tls_connect,
            "zookeeper.session.timeout.ms": "30000",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY_SOCKET,
            "zookeeper.ssl.keystore.location": str(self.tls.client_store),
            "zookeeper.ssl.truststore.location": str(self.tls.ca),
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return ZooKeeperClient(zookeeper_settings({key: one for key, one in properties.items() if one}, {}))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tls")
    tls = TlsFiles.make(folder / "files", "broker.example")
    with ZooKeeper(folder / "zookeeper", setup=Setup(tls=tls)) as zookeeper:
        yield Server(zookeeper, tls)


async def test_a_certificate_is_who_we_are(server: Server) -> None:
    async with server.client(zookeeper__set__acl="true") as client:
        found = await client.authenticated_id()
        assert found is not None
        assert found.scheme == "x509"
        assert "CN=broker.example" in found.id
        await client.create("/by-certificate", b"", (CREATOR_ALL,))
        assert (await client.acls("/by-certificate"))[0] == (ZnodeAcl(Permission.ALL, found.scheme, found.id),)


async def test_a_login_goes_over_tls_as_well(server: Server) -> None:
    jaas = str(server.zookeeper.client_jaas())
    async with server.client(java__security__auth__login__config=jaas) as client:
        assert await client.authenticated_id() == ZnodeId("sasl", "kafka")
        await client.create("/both", b"", (CREATOR_ALL,))
        assert {acl.scheme for acl in (await client.acls("/both"))[0]} == {"sasl", "x509"}


async def test_versions_of_tls_are_as_the_keys_say(server: Server) -> None:
    async with server.client(zookeeper__ssl__enabled__protocols="TLSv1.2,TLSv1.3") as client:
        assert await client.exists("/") is not None


async def test_a_server_of_another_ca_is_not_spoken_to(server: Server, tmp_path: Path) -> None:
    stranger = TlsFiles.make(tmp_path)
    client = server.client(zookeeper__ssl__truststore__location=str(stranger.ca))
    with pytest.raises(
        ConnectionLossError, match=r"certificate of ZooKeeper is not believed, .*self-signed|unable to get"
    ):
        await client.start()


async def test_a_name_that_the_certificate_has_not_is_refused(server: Server) -> None:
    another_name = server.zookeeper.tls_connect.replace("127.0.0.1", "127.1")
    with pytest.raises(ConnectionLossError, match=r"certificate of ZooKeeper is not believed, 127\.1:.*mismatch"):
        await server.client(zookeeper__connect=another_name).start()
    algorithm = "zookeeper.ssl.endpoint.identification.algorithm"
    async with server.client(zookeeper__connect=another_name, **{algorithm: " "}) as client:
        assert await client.exists("/") is not None


async def test_renewed_files_are_taken_up_by_the_next_connection(server: Server, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(server.tls.ca.read_bytes())
    client = server.client(zookeeper__ssl__truststore__location=str(trusted))
    trusted.write_bytes(TlsFiles.make(tmp_path / "another").ca.read_bytes() * 2)
    with pytest.raises(ConnectionLossError, match="certificate of ZooKeeper is not believed"):
        await client.start()


async def test_a_server_that_wants_a_certificate_lets_nobody_in_without(server: Server) -> None:
    client = server.client(zookeeper__ssl__keystore__location="", zookeeper__connection__timeout__ms="2000")
    with pytest.raises(ConnectionLossError, match="no connection to ZooKeeper"):
        await client.start()
