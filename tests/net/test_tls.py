"""TLS as configured by Kafka's keys: handshakes in memory, between our two sides."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key

from barnabas.model.config import ConfigError, Password
from barnabas.model.principal import ANONYMOUS, KafkaPrincipal
from barnabas.net.dev_ca import DevCa, write_private
from barnabas.net.distinguished_name import PrincipalMapper
from barnabas.net.tls import ClientTls, ServerTls, TlsConfig, openssl_suite, peer_principal


@pytest.fixture(scope="module")
def ca() -> DevCa:
    return DevCa.create()


def server_config(ca: DevCa, **more: object) -> dict[str, object]:
    issued = ca.issue_server()
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": Password(issued.key_pem.decode()),
        "ssl.keystore.certificate.chain": (issued.certificate_pem + issued.ca_pem).decode(),
        **trusting(ca),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def trusting(ca: DevCa) -> dict[str, object]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.certificate_pem.decode()}


def client_config(ca: DevCa, name: str | None = None) -> dict[str, object]:
    config = trusting(ca)
    if name is not None:
        issued = ca.issue_client(name)
        config |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key_pem.decode(),
            "ssl.keystore.certificate.chain": issued.certificate_pem.decode(),
        }
    return config


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Give both ends after a handshake; the SSLError of whichever end refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    pending = [near, far]
    for _ in range(20):
        for end in list(pending):
            try:
                end.do_handshake()
                pending.remove(end)
            except ssl.SSLWantReadError:
                continue
        if not pending:
            # TLS 1.3 tells a client of its refused certificate only with the first data.
            far.write(b"x")
            near.read(1)
            return near, far
    raise AssertionError("the handshake does not end")


def connect(server: Mapping[str, object], client: Mapping[str, object], host: str = "localhost") -> ssl.SSLObject:
    """Give the server's end."""
    return handshake(ServerTls(TlsConfig.parse(server)).context, ClientTls(TlsConfig.parse(client)).context, host)[1]


def test_a_client_without_certificate_is_anonymous(ca: DevCa) -> None:
    assert peer_principal(connect(server_config(ca), client_config(ca)), PrincipalMapper.parse()) == ANONYMOUS


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_the_server_is_known_by_each_of_its_names(ca: DevCa, host: str) -> None:
    assert connect(server_config(ca), client_config(ca), host).version() == "TLSv1.3"


def test_another_name_is_refused_unless_identification_is_off(ca: DevCa) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(server_config(ca), client_config(ca), "example.org")
    relaxed = {**client_config(ca), "ssl.endpoint.identification.algorithm": ""}
    assert connect(server_config(ca), relaxed, "example.org").version() == "TLSv1.3"


def test_a_server_of_another_authority_is_refused(ca: DevCa) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(server_config(DevCa.create()), client_config(ca))


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_a_client_certificate_gives_the_principal(ca: DevCa, auth: str) -> None:
    far = connect(server_config(ca, ssl_client_auth=auth), client_config(ca, "alice"))
    assert peer_principal(far, PrincipalMapper.parse()) == KafkaPrincipal("User", "CN=alice")
    assert peer_principal(far, PrincipalMapper.parse("RULE:^CN=(.*)$/$1/U")) == KafkaPrincipal("User", "ALICE")


def test_required_refuses_a_client_without_certificate(ca: DevCa) -> None:
    with pytest.raises(ssl.SSLError):
        connect(server_config(ca, ssl_client_auth="required"), client_config(ca))


def test_requested_lets_a_client_without_certificate_in_as_anonymous(ca: DevCa) -> None:
    far = connect(server_config(ca, ssl_client_auth="requested"), client_config(ca))
    assert peer_principal(far, PrincipalMapper.parse()) == ANONYMOUS


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_a_client_of_another_authority_is_refused(ca: DevCa, auth: str) -> None:
    stranger = {**client_config(DevCa.create(), "alice"), **trusting(ca)}
    with pytest.raises(ssl.SSLError):
        connect(server_config(ca, ssl_client_auth=auth), stranger)


def test_a_leaf_in_a_trust_store_is_trusted_for_itself(ca: DevCa) -> None:
    config = server_config(ca)
    leaf = str(config["ssl.keystore.certificate.chain"]).split("-----END CERTIFICATE-----")[0]
    client = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": leaf + "-----END CERTIFICATE-----"}
    assert connect(config, client).version() == "TLSv1.3"


def test_protocols_and_suites_bound_what_is_spoken(ca: DevCa) -> None:
    old = server_config(ca, ssl_enabled_protocols="TLSv1.2")
    assert connect(old, client_config(ca)).version() == "TLSv1.2"
    suite = server_config(ca)
    suite["ssl.cipher.suites"] = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]
    far = connect(suite, client_config(ca))
    assert (far.version(), (far.cipher() or ("",))[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError):
        connect(suite, {**client_config(ca), "ssl.enabled.protocols": "TLSv1.3"})


def test_java_suite_names() -> None:
    names = {
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    }
    assert {name: openssl_suite(name) for name in names} == names
    known = {cipher["name"] for cipher in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()}
    assert set(names.values()) & known


def write_store(directory: Path, ca: DevCa, file: str = "server.pem") -> Path:
    path = directory / file
    write_private(path, ca.issue_server().store)
    return path


def test_renewed_certificates_serve_new_connections_without_a_restart(ca: DevCa, tmp_path: Path) -> None:
    store, trust = write_store(tmp_path, ca), tmp_path / "trust.pem"
    write_private(trust, ca.certificate_pem)
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "ssl.client.auth": "required",
    }
    server = ServerTls(TlsConfig.parse(config))
    context = server.context
    alice = ClientTls(TlsConfig.parse(client_config(ca, "alice"))).context
    first = handshake(context, alice)[0].getpeercert(True)
    assert not server.reload_if_changed()

    write_store(tmp_path, ca)
    assert server.reload_if_changed()
    second = handshake(context, alice)[0].getpeercert(True)
    assert first != second

    write_private(store, b"half a file")
    assert not server.reload_if_changed()
    assert handshake(context, alice)[0].getpeercert(True) == second

    other = DevCa.create()
    write_store(tmp_path, other)
    write_private(trust, other.certificate_pem)
    assert server.reload_if_changed()
    bob = ClientTls(TlsConfig.parse(client_config(other, "bob"))).context
    assert peer_principal(handshake(context, bob)[1], PrincipalMapper.parse()) == KafkaPrincipal("User", "CN=bob")
    # Alice's authority is trusted no more, and she no longer trusts the server's.
    relaxed = {**client_config(ca, "alice"), **trusting(other)}
    with pytest.raises(ssl.SSLError):
        handshake(context, ClientTls(TlsConfig.parse(relaxed)).context)


def test_a_client_takes_up_renewed_files(ca: DevCa, tmp_path: Path) -> None:
    trust = tmp_path / "trust.pem"
    write_private(trust, DevCa.create().certificate_pem)
    client = ClientTls(TlsConfig.parse({"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trust)}))
    server = ServerTls(TlsConfig.parse(server_config(ca))).context
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client.context)
    write_private(trust, ca.certificate_pem)
    assert client.reload_if_changed()
    handshake(server, client.context)


def test_an_encrypted_pem_key_is_opened_with_its_password(ca: DevCa, tmp_path: Path) -> None:
    issued = ca.issue_server()
    encrypted = load_pem_private_key(issued.key_pem, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    path = tmp_path / "store.pem"
    path.write_bytes(b"Bag Attributes: none\n" + encrypted + issued.certificate_pem)
    config = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    connect({**config, "ssl.key.password": Password("secret")}, client_config(ca))
    for wrong in (config, {**config, "ssl.key.password": "other"}):
        with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
            ServerTls(TlsConfig.parse(wrong))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ssl.client.auth": "sometimes"}, "none, requested or required"),
        ({"ssl.keystore.key": None}, "only work together"),
        ({"ssl.keystore.type": "BKS"}, "want one of PEM, PKCS12, JKS"),
        ({"ssl.keystore.type": "JKS"}, "needs ssl.keystore.type=PEM"),
        ({"ssl.keystore.location": "/x"}, "exclude each other"),
        ({"ssl.keystore.password": "x"}, "not used with"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.key": "y"}, "want one PRIVATE KEY"),
        ({"ssl.truststore.certificates": None, "ssl.truststore.password": "x"}, "not used with"),
        ({"ssl.enabled.protocols": "SSLv3"}, "want some of"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}, "without a gap"),
        ({"ssl.cipher.suites": "TLS_FANTASY_WITH_NULL"}, "none is known"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"}, "none is for"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "want https"),
    ],
)
def test_unusable_settings_are_named(ca: DevCa, changes: dict[str, object], complaint: str) -> None:
    config = {**server_config(ca), **changes}
    with pytest.raises(ConfigError, match=complaint):
        ServerTls(TlsConfig.parse({key: value for key, value in config.items() if value is not None}))


def test_a_pem_file_that_is_called_otherwise_is_recognized(ca: DevCa, tmp_path: Path) -> None:
    location = {"ssl.keystore.location": str(write_store(tmp_path, ca))}
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.type=PEM"):
        ServerTls(TlsConfig.parse(location))
    with pytest.raises(ConfigError, match=r"this is a PEM file, set ssl\.keystore\.type=PEM"):
        ServerTls(TlsConfig.parse({**location, "ssl.keystore.password": "x", "ssl.keystore.type": "PKCS12"}))


def test_no_secret_in_any_repr(ca: DevCa) -> None:
    config = TlsConfig.parse({**server_config(ca), "ssl.key.password": Password("s3cret")})
    assert "PRIVATE" not in repr(config)
    assert "s3cret" not in repr(config)


def test_a_saved_authority_is_the_same_and_private(tmp_path: Path, ca: DevCa) -> None:
    key, certificate = tmp_path / "ca.key", tmp_path / "ca.pem"
    ca.save(key, certificate)
    again = DevCa.load(key, certificate)
    assert again.certificate_pem == ca.certificate_pem
    assert connect(server_config(again), client_config(ca)).version() == "TLSv1.3"
    assert [path.stat().st_mode & 0o777 for path in (key, certificate)] == [0o600, 0o600]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.key", "ca.pem"]


def test_a_server_without_a_key_store_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        ServerTls(TlsConfig.parse({}))


def test_issued_certificates_carry_the_given_name(ca: DevCa) -> None:
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "svc"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Example"),
        ]
    )
    issued = ca.issue_client(name)
    assert x509.load_pem_x509_certificate(issued.certificate_pem).subject == name


async def served_certificate(port: int, client: ssl.SSLContext) -> bytes | None:
    """Give the certificate that a server on loopback shows now."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
    try:
        assert await reader.readexactly(2) == b"hi"
        der: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
        return der
    finally:
        writer.close()
        await writer.wait_closed()


def test_a_listening_socket_shows_renewed_certificates(ca: DevCa, tmp_path: Path) -> None:
    store = write_store(tmp_path, ca)
    server = ServerTls(TlsConfig.parse({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}))
    client = ClientTls(TlsConfig.parse(client_config(ca))).context

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hi")
        await reader.read()
        writer.close()

    async def scenario() -> list[bytes | None]:
        listener = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server.context)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            shown = [await served_certificate(port, client)]
            write_store(tmp_path, ca)
            assert server.reload_if_changed()
            shown.append(await served_certificate(port, client))
            return shown

    first, second = uvloop.run(scenario())
    assert first is not None
    assert second is not None
    assert first != second
