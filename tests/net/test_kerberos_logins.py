"""Where a client's ticket comes from, and when another one is wanted. No KDC is needed here, and no package."""

from __future__ import annotations

import sys

import pytest

from barnabas.client.config import ClientConfig
from barnabas.client.security import channel_settings
from barnabas.model.config import ConfigError
from barnabas.net.kerberos_logins import Renewal, Source, service_name, source
from barnabas.server.logins.kerberos import acceptor
from tests.server.controllers import node_config

KEYS = {"useKeyTab": "true", "keyTab": "/k", "principal": "a@B"}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (KEYS, Source("/k", False, None, "a@B")),
        ({"useTicketCache": "TRUE"}, Source(None, True, None, None)),
        ({"useTicketCache": "true", "ticketCache": "/c", "principal": "a"}, Source(None, True, "/c", "a")),
        ({**KEYS, "useTicketCache": "true"}, Source("/k", True, None, "a@B")),
        ({**KEYS, "useKeyTab": "false", "useTicketCache": "true"}, Source(None, True, None, "a@B")),
    ],
)
def test_options_of_the_login_module(options: dict[str, str], found: Source) -> None:
    assert source(options) == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "want useKeyTab=true with keyTab and principal, or useTicketCache=true"),
        ({"useKeyTab": "true", "keyTab": "/k"}, "wants keyTab and principal"),
        ({"useKeyTab": "true", "principal": "a"}, "wants keyTab and principal"),
    ],
)
def test_options_that_say_nothing(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        source(options)


def test_the_service_has_one_name() -> None:
    assert service_name("kafka", {}) == service_name(None, {"serviceName": "kafka"}) == "kafka"
    assert service_name("kafka", {"serviceName": "kafka"}) == "kafka"
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.service\.name is not set"):
        service_name(None, {})
    with pytest.raises(ConfigError, match="want one of them"):
        service_name("kafka", {"serviceName": "other"})


@pytest.mark.parametrize(
    ("renewal", "lifetime", "after"),
    [
        (Renewal(), 36_000, 30_600),  # 0.8 and the whole of 0.05
        (Renewal(jitter=0.5), 36_000, 36_000),  # not after its end
        (Renewal(), 70, 60),  # not sooner than a minute
        (Renewal(), 50, 42.5),  # unless it would end
    ],
)
def test_when_a_ticket_is_renewed(renewal: Renewal, lifetime: float, after: float) -> None:
    assert renewal.after_s(lifetime, 1.0) == pytest.approx(after)


@pytest.fixture
def _without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "barnabas.net.kerberos", raising=False)


@pytest.mark.usefixtures("_without_the_package")
def test_without_the_package_it_is_asked_for() -> None:
    config = ClientConfig.from_properties(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;",
        }
    )
    with pytest.raises(ConfigError, match=r"GSSAPI needs another package: pip install 'barnabas\[kerberos\]'"):
        channel_settings(config)


def test_who_names_no_mechanism_is_told_that_this_is_one() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
    config = ClientConfig.from_properties({"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas})
    with pytest.raises(ConfigError, match=r"sasl\.mechanism is not set, which stands for GSSAPI \(Kerberos\)"):
        channel_settings(config)


@pytest.mark.usefixtures("_without_the_package")
def test_a_listener_without_the_package_asks_for_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = node_config(tmp_path_factory.mktemp("node"), sasl__enabled__mechanisms="GSSAPI")
    with pytest.raises(
        ConfigError, match=r"listener A offers GSSAPI, which needs .*pip install 'barnabas\[kerberos\]'"
    ):
        acceptor(config, "A")
