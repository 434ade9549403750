"""JAAS entries as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.sasl.jaas import (
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    JaasError,
    LoginModule,
    format_jaas,
    parse_jaas,
)


def test_a_clients_entry() -> None:
    module = parse_jaas(f'{SCRAM_LOGIN_MODULE} required username="alice" password="pa\\"ss; word\\\\";')
    assert module == LoginModule(SCRAM_LOGIN_MODULE, "required", {"username": "alice", "password": 'pa"ss; word\\'})
    assert (module.username, module.password) == ("alice", 'pa"ss; word\\')


def test_a_servers_entry() -> None:
    module = parse_jaas(
        f"""{PLAIN_LOGIN_MODULE} REQUIRED // a comment
            username='admin' /* another
            one */ password=admin-secret
            user_admin="admin-secret" user_alice=alice.secret user_x="";"""
    )
    assert module.control_flag == "required"
    assert module.user_passwords() == {"admin": "admin-secret", "alice": "alice.secret", "x": ""}
    assert module.password == "admin-secret"


def test_escapes_of_java() -> None:
    assert parse_jaas(r"""m optional a="\t\101\x\n" b='"';""").options == {"a": "\tAx\n", "b": '"'}


def test_passwords_stay_out_of_sight() -> None:
    assert "geheim" not in repr(parse_jaas('m required password="geheim";'))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no login module"),
        ("// only a comment", "no login module"),
        ('"m" required;', "class name"),
        ("m", "is followed by one of"),
        ("m sometimes;", "is followed by one of"),
        ("m required", "semicolon"),
        ('m required password="x"', "semicolon"),
        ("m required password;", "has no value"),
        ("m required password=;", "has no value"),
        ('m required ="geheim";', "option name"),
        ('m required password="geheim;', "has no value|semicolon|option name"),
        ("m required; n required;", "more than one"),
    ],
)
def test_what_is_wrong_is_said_without_values(text: str, complaint: str) -> None:
    with pytest.raises(JaasError, match=complaint) as caught:
        parse_jaas(text)
    assert "geheim" not in str(caught.value)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_what_is_formatted_is_read_back(options: dict[str, str]) -> None:
    assert parse_jaas(format_jaas(SCRAM_LOGIN_MODULE, options)).options == options


@given(st.text())
def test_rubbish_gives_only_jaas_errors(text: str) -> None:
    try:
        parse_jaas(text)
    except JaasError:
        pass
