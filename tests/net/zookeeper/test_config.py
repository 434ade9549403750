"""Kafka's keys, Java's system properties and JAAS files, as settings of a client. No ZooKeeper is needed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.model.config import ConfigError
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.net.zookeeper.logins import DigestLogin
from barnabas.net.zookeeper.settings import ZooKeeperSettings, parse_connect
from barnabas.net.zookeeper.system_properties import system_properties

DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="a \\"secret\\"";'
WHERE = {"zookeeper.connect": "a:2181"}


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    path = tmp_path / "jaas.conf"
    path.write_text(
        "/* of a broker */\nKafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required a=b; };\n"
        f"Client {{\n  {DIGEST}\n}};\n// another one\nAnother {{ {DIGEST.replace('kafka', 'tool')} }};"
    )
    return path


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a", (("a", 2181),), ""),
        ("a:1,b , c:3", (("a", 1), ("b", 2181), ("c", 3)), ""),
        ("a:1,b:2/kafka", (("a", 1), ("b", 2)), "/kafka"),
        ("a:1/one/two/", (("a", 1),), "/one/two"),
        ("a:1/", (("a", 1),), ""),
        ("[::1]:7,[::2]", (("::1", 7), ("::2", 2181)), ""),
    ],
)
def test_where_zookeeper_is(text: str, servers: tuple[tuple[str, int], ...], chroot: str) -> None:
    assert parse_connect(text) == (servers, chroot)


@pytest.mark.parametrize("text", ["", "/kafka", "a:x", "a:0", "a:65536", ":1", "a:1/a//b", "a:1/./b", "a:1/../b"])
def test_where_zookeeper_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect="):
        parse_connect(text)


def test_defaults_are_kafkas() -> None:
    assert zookeeper_settings(WHERE, {}) == ZooKeeperSettings((("a", 2181),), "", 18_000, 18_000, None, None)
    slower = {"zookeeper.session.timeout.ms": "30000"}
    assert zookeeper_settings(WHERE | slower, {}).connection_timeout_ms == 30_000
    both = slower | {"zookeeper.connection.timeout.ms": "5"}
    assert zookeeper_settings(WHERE | both, {}).connection_timeout_ms == 5
    with pytest.raises(ConfigError, match=r"zookeeper\.connect is not set"):
        zookeeper_settings({}, {})
    with pytest.raises(ConfigError, match=r"zookeeper\.session\.timeout\.ms: '0' is not allowed"):
        zookeeper_settings(WHERE | {"zookeeper.session.timeout.ms": "0"}, {})


def test_system_properties_as_the_scripts_pass_them() -> None:
    environment = {
        "JAVA_TOOL_OPTIONS": "-Da='one two' -Xmx1g",
        "KAFKA_HEAP_OPTS": "-Xmx1G -Dc=heap",
        "KAFKA_OPTS": " -Db=1   -Dc=2 -Dd -D=x -Dc=3 ",
        "OTHER": "-De=1",
    }
    assert system_properties(environment) == {"a": "one two", "b": "1", "c": "3", "d": ""}
    assert system_properties({}) == {}


def test_a_login_comes_from_the_environment_or_the_file(jaas: Path, tmp_path: Path) -> None:
    expected = DigestLogin("kafka", 'a "secret"')
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}
    assert zookeeper_settings(WHERE, environment).login == expected
    named = WHERE | {"java.security.auth.login.config": str(jaas)}
    assert zookeeper_settings(named, {}).login == expected
    # What stands in the file counts.
    assert zookeeper_settings(named, {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}).login == expected
    assert "secret" not in repr(zookeeper_settings(named, {})) + repr(expected)


def test_the_section_may_have_another_name(jaas: Path) -> None:
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas} -Dzookeeper.sasl.clientconfig=Another"}
    assert zookeeper_settings(WHERE, environment).login == DigestLogin("tool", 'a "secret"')
    named = WHERE | {"java.security.auth.login.config": str(jaas)}
    # A file may be there for other logins only.
    assert zookeeper_settings(named | {"zookeeper.sasl.clientconfig": "None"}, {}).login is None
    off = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas} -Dzookeeper.sasl.client=false"}
    assert zookeeper_settings(WHERE, off).login is None


def test_strict_znodes_want_an_owner(jaas: Path) -> None:
    strict = WHERE | {"zookeeper.set.acl": "true"}
    with pytest.raises(
        ConfigError, match=r"zookeeper\.set\.acl is true.*'Client'.*java\.security\.auth\.login\.config"
    ):
        zookeeper_settings(strict, {})
    named = strict | {"java.security.auth.login.config": str(jaas)}
    assert zookeeper_settings(named, {}).login is not None
    for less in ({"zookeeper.sasl.client": "false"}, {"zookeeper.sasl.clientconfig": "Nobody"}):
        with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl is true"):
            zookeeper_settings(named | less, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("Client { a.B required; }", "is not a JAAS file: section 'Client' does not end with a semicolon"),
        ("Client { a.B required;", "section 'Client' does not end"),
        ("Client a.B required;", "a section is expected where 'Client' stands"),
        ("Client { a.B required; }; Client { a.B required; };", "section 'Client' stands twice"),
        ("Client { a.B password=secret; };", "the login module is followed by"),
        ("Client { };", "section Client: 0 login modules; want one"),
        ("Client { a.B required; a.B required; };", "section Client: 2 login modules; want one"),
        ("Client { a.B required; };", r"section Client: a\.B is no login for ZooKeeper"),
        ("Client { x.DigestLoginModule required password=secret; };", "DigestLoginModule wants username and password"),
    ],
)
def test_what_is_wrong_with_a_jaas_file_is_said(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "jaas"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        zookeeper_settings(WHERE | {"java.security.auth.login.config": str(path)}, {})
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_tls_wants_a_class_that_knows_it() -> None:
    tls = WHERE | {"zookeeper.ssl.client.enable": "true"}
    nio = tls | {"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}
    with pytest.raises(ConfigError, match=r"zookeeper\.clientCnxnSocket=.*NIO knows no TLS"):
        zookeeper_settings(nio, {})
    assert zookeeper_settings(nio | {"zookeeper.ssl.client.enable": "false"}, {}).tls is None
    found = zookeeper_settings(tls, {}).tls
    assert found is not None
    assert (found.config.protocols, found.config.identify_server) == (("TLSv1.2",), True)
    options = (
        "-Dzookeeper.client.secure=true -Dzookeeper.ssl.hostnameVerification=false -Dzookeeper.ssl.protocol=TLSv1.3"
    )
    found = zookeeper_settings(WHERE, {"KAFKA_OPTS": options}).tls
    assert found is not None
    assert (found.config.protocols, found.config.identify_server) == (("TLSv1.3",), False)
    with pytest.raises(ConfigError, match=r"/nowhere\.p12"):
        zookeeper_settings(tls | {"zookeeper.ssl.truststore.location": "/nowhere.p12"}, {})
