"""What a node wants to be told before it takes tickets."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.model.config import ConfigError
from barnabas.model.principal import ANONYMOUS, KafkaPrincipal
from barnabas.server.config import NodeConfig
from barnabas.server.logins.kerberos import acceptor
from barnabas.server.own_principal import own_principal
from tests.server.controllers import node_config

from .kdc import SERVICE, Kdc, by_key_table, by_ticket_cache

pytestmark = pytest.mark.peer
JAAS = "listener.name.clients.gssapi.sasl.jaas.config"
RULES = "sasl.kerberos.principal.to.local.rules"


def config(kdc: Kdc, folder: Path, **changes: str | None) -> NodeConfig:
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        JAAS: by_key_table(kdc.service(), SERVICE),
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    return node_config(folder, **{key: value for key, value in settings.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl.kerberos.service.name": None}, r"sasl\.kerberos\.service\.name is not set"),
        (
            {JAAS: None, "sasl.enabled.mechanisms": None},
            r"sasl\.enabled\.mechanisms is not set, which stands for GSSAPI .* is missing",
        ),
        ({JAAS: None}, rf"^{JAAS} is missing: want .*Krb5LoginModule"),
        ({JAAS: "nonsense"}, rf"{JAAS}: "),
        ({JAAS: by_ticket_cache("/c")}, rf"{JAAS}: a node wants useKeyTab=true with keyTab and principal"),
        ({JAAS: by_key_table("/nowhere", SERVICE)}, f"{JAAS}: Key table file '/nowhere' not found"),
        ({RULES: "RULE:[1:$1]s/a/b"}, f"{RULES}: .* at its end is not part of a rule"),
        ({RULES: "DEFAULT,RULE:[1:$2]"}, rf"{RULES}: rule RULE:\[1:\$2\]: there are only \$0 to \$1"),
        ({f"listener.name.clients.gssapi.{RULES}": "default"}, f"{RULES}: 'default' is not a rule"),
    ],
)
def test_what_is_wrong_is_named(kdc: Kdc, tmp_path: Path, changes: dict[str, str | None], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        acceptor(config(kdc, tmp_path, **changes), "CLIENTS")


def test_keys_must_be_those_of_the_principal(kdc: Kdc, tmp_path: Path) -> None:
    jaas = by_key_table(kdc.principal("somebody"), SERVICE)
    with pytest.raises(ConfigError, match=f"No key table entry found for {SERVICE}"):
        acceptor(config(kdc, tmp_path, **{JAAS: jaas}), "CLIENTS")


def test_another_service_than_that_of_the_keys_is_complained_about(kdc: Kdc, tmp_path: Path) -> None:
    with capture_logs() as said:
        acceptor(config(kdc, tmp_path, sasl__kerberos__service__name="other"), "CLIENTS")
    assert "clients ask for another service than this node has keys of" in [line["event"] for line in said]


@pytest.mark.parametrize(
    ("rules", "principal", "known_as"),
    [
        ("DEFAULT", SERVICE, KafkaPrincipal("User", "kafka")),
        ("RULE:[2:$1-$2]/U", "kafka/localhost", KafkaPrincipal("User", "KAFKA-LOCALHOST")),
        ("RULE:[1:$1]", SERVICE, ANONYMOUS),
        ("nonsense", SERVICE, ANONYMOUS),
    ],
)
def test_a_node_that_is_all_in_one_knows_itself_as_its_fellows_would(
    kdc: Kdc, tmp_path: Path, rules: str, principal: str, known_as: KafkaPrincipal
) -> None:
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "listener.name.controller.gssapi.sasl.jaas.config": by_key_table(kdc.service(), principal),
        RULES: rules,
    }
    assert own_principal(config(kdc, tmp_path, **settings)) == known_as
