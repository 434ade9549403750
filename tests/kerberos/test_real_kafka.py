"""Our clients at a real Apache Kafka, by Kerberos."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client.admin import Admin
from barnabas.client.security import channel_settings
from barnabas.net.client import AuthenticationError, Channel
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest
from tests.peers.apache import SMALL_JVM
from tests.peers.kafka import RealKafka
from tests.server.requests import build
from tests.sessions.recorder import recorded

from .kdc import SERVICE, Kdc, by_key_table, by_ticket_cache
from .nodes import client

pytestmark = pytest.mark.peer
LIFE_MS = 8000
"""Long enough for the tenth or less of it, that is left when a session is renewed, to be enough on a busy machine."""
PROTOCOL = "SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def kafka(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    kdc.principal("alice")
    node = RealKafka(
        tmp_path_factory.mktemp("kafka"),
        listeners=("PLAINTEXT", PROTOCOL),
        properties={
            "connections.max.reauth.ms": str(LIFE_MS),
            "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-512",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": by_key_table(kdc.service(), SERVICE),
        },
        jvm=(*SMALL_JVM, f"-Djava.security.krb5.conf={kdc.krb5_conf}"),
    )
    with node:
        yield node


def entries(kdc: Kdc) -> dict[str, str]:
    table = str(kdc.folder / "alice.keytab")
    return {"keys": by_key_table(table, "alice"), "cache": by_ticket_cache(kdc.ticket("alice"))}


@pytest.mark.parametrize("by", ["keys", "cache"])
async def test_our_client_logs_in_at_apache_kafka(kafka: RealKafka, kdc: Kdc, by: str) -> None:
    async with Admin(client(kafka.bootstrap(PROTOCOL), entries(kdc)[by])) as admin:
        assert await admin.nodes()


@pytest.mark.requirement("R-13", "R-22")
async def test_our_client_renews_its_session_at_apache_kafka(kafka: RealKafka, kdc: Kdc) -> None:
    settings = channel_settings(client(kafka.bootstrap(PROTOCOL), entries(kdc)["keys"]))
    waiting = build(ApiKey.FETCH, max_wait_ms=50, min_bytes=1, topics=[])
    async with recorded("localhost", kafka.ports[PROTOCOL]) as tape:
        asked = await Channel.open("localhost", tape.port, settings)
        try:
            while tape.handshakes() < 3:
                await asked.call(waiting, version=11)
            assert (await asked.call(MetadataRequest(topics=[]))).brokers
        finally:
            await asked.close()
    assert len(tape.connections) == 1


async def test_apache_kafka_refuses_tickets_of_another_service(kafka: RealKafka, kdc: Kdc) -> None:
    kdc.principal("elsewhere/localhost")
    config = client(kafka.bootstrap(PROTOCOL), entries(kdc)["keys"], sasl__kerberos__service__name="elsewhere")
    with pytest.raises(AuthenticationError, match="invalid credentials with SASL mechanism GSSAPI"):
        await Channel.open("localhost", kafka.ports[PROTOCOL], channel_settings(config))
