"""Where clients of ours have their tickets from, how long they keep them, and what they say when they get none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.model.config import ConfigError
from barnabas.net.client import AuthenticationError, DisconnectedError
from tests.peers.eventually import eventually

from .kdc import REALM, Kdc, by_key_table, by_ticket_cache
from .nodes import KerberosNodes, client, open_channel, same_client, settings_of

pytestmark = pytest.mark.peer
BRIEF = "5s"
"""The life of tickets that are to end in a test, and are to be good when they are used first."""


async def test_keys_named_as_librdkafka_names_them(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    settings = settings_of(nodes.bootstrap, "", sasl__kerberos__keytab=kdc.folder / "alice.keytab")
    del settings["sasl.jaas.config"]
    await open_channel(ClientConfig.from_properties({**settings, "sasl.kerberos.principal": "alice"}))
    with pytest.raises(ConfigError, match="wants keyTab and principal"):
        await open_channel(ClientConfig.from_properties(settings))


async def test_a_ticket_of_somebody_elses_making_will_do(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    cache = kdc.ticket("alice")
    async with Admin(client(nodes.bootstrap, by_ticket_cache(cache))) as admin:
        assert await admin.nodes()


def gone(kdc: Kdc) -> tuple[str, str]:
    table = kdc.principal("gone")
    kdc.remove("gone")
    return by_key_table(table, "gone"), f"Client 'gone@{REALM}' not found in Kerberos database"


def old_keys(kdc: Kdc) -> tuple[str, str]:
    table = kdc.principal("changed")
    kdc.change_keys("changed")
    return by_key_table(table, "changed"), "integrity check failed|Preauthentication failed"


def strange_keys(kdc: Kdc) -> tuple[str, str]:
    return by_key_table(kdc.service(), "carol"), f"No key table entry found for carol@{REALM}"


def no_table(kdc: Kdc) -> tuple[str, str]:
    return by_key_table("/nowhere", "carol"), "Key table file '/nowhere' not found"


def no_cache(kdc: Kdc) -> tuple[str, str]:
    return by_ticket_cache("/nowhere"), "ticket cache /nowhere: No credentials cache found"


@pytest.mark.parametrize("wrong", [gone, old_keys, strange_keys, no_table, no_cache])
async def test_who_cannot_be_known_is_told_why(
    nodes: KerberosNodes, kdc: Kdc, wrong: Callable[[Kdc], tuple[str, str]]
) -> None:
    jaas, said = wrong(kdc)
    with pytest.raises(AuthenticationError, match=said):
        await open_channel(client(nodes.bootstrap, jaas))


async def test_a_ticket_that_has_ended_is_named(nodes: KerberosNodes, kdc: Kdc) -> None:
    kdc.principal("brief")
    jaas = by_ticket_cache(kdc.ticket("brief", "-l", BRIEF))
    config = client(nodes.bootstrap, jaas)
    # Whoever had one before waits for another one, as Java's clients do.
    await until_ended(config)
    stranger = client(nodes.bootstrap, jaas, sasl__kerberos__ticket__renew__jitter="0.01")
    with pytest.raises(AuthenticationError, match="expired"):
        await open_channel(stranger)
    kdc.ticket("brief")
    await open_channel(config)


async def until_ended(config: ClientConfig) -> None:
    """Log in until the ticket is told to have ended."""

    async def said() -> str:
        try:
            await open_channel(config)
        except DisconnectedError as e:
            return "ended" if "expired" in str(e) else str(e)
        return "good"

    await eventually(said, "ended")


async def test_keys_get_another_ticket_before_the_first_one_ends(nodes: KerberosNodes, kdc: Kdc) -> None:
    jaas = by_key_table(kdc.principal("short", "-maxlife", '"40 sec"'), "short")
    more = {"sasl__kerberos__min__time__before__relogin": 0, "sasl__kerberos__ticket__renew__window__factor": 0.02,
            "sasl__kerberos__ticket__renew__jitter": 0}  # fmt: skip
    log_in_again = same_client(client(nodes.bootstrap, jaas, **more))
    await log_in_again()
    await log_in_again()
    assert kdc.logins("short") == 1

    async def logins() -> bool:
        await log_in_again()
        return kdc.logins("short") >= 3

    await eventually(logins, True)


async def test_keys_outlive_a_ticket_that_has_ended_unused(nodes: KerberosNodes, kdc: Kdc) -> None:
    jaas = by_key_table(kdc.principal("idle", "-maxlife", f'"{BRIEF}"'), "idle")
    log_in_again = same_client(client(nodes.bootstrap, jaas))
    await log_in_again()
    await until_ended(client(nodes.bootstrap, by_ticket_cache(kdc.ticket("idle"))))
    await log_in_again()


async def test_a_ticket_cache_is_renewed_where_that_can_be(nodes: KerberosNodes, kdc: Kdc) -> None:
    kdc.principal("renewable")
    cache = kdc.ticket("renewable", "-l", "4s", "-r", "1d")
    more = {"sasl__kerberos__ticket__renew__window__factor": 0.1, "sasl__kerberos__min__time__before__relogin": 0}
    log_in_again = same_client(client(nodes.bootstrap, by_ticket_cache(cache), **more))

    async def renewals() -> bool:
        await log_in_again()
        return kdc.renewals("renewable") >= 2

    await eventually(renewals, True)


async def test_clients_of_the_same_owner_share_a_ticket(nodes: KerberosNodes, kdc: Kdc) -> None:
    jaas = by_key_table(kdc.principal("shared"), "shared")
    for _ in range(3):
        await open_channel(client(nodes.bootstrap, jaas))
    assert kdc.logins("shared") == 1


async def test_without_a_kdc_tickets_that_there_are_still_do(nodes: KerberosNodes, kdc: Kdc, alice: str) -> None:
    stranger = client(nodes.bootstrap, by_key_table(kdc.principal("stranger"), "stranger"))
    config = client(nodes.bootstrap, alice)
    log_in_again = same_client(config)
    await log_in_again()
    kdc.stop()
    try:
        await log_in_again()
        with pytest.raises(DisconnectedError, match="Cannot contact any KDC"):
            await open_channel(stranger)
    finally:
        kdc.start()
    await open_channel(stranger)
