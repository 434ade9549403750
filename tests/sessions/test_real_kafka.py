"""Our clients at a real Apache Kafka whose sessions end, and at one whose do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.cli.main import main
from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.security import channel_settings
from barnabas.net.client import Channel
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest
from tests.clients_under_test.commands import CLIENTS
from tests.peers.kafka import RealKafka
from tests.server.requests import build

from .recorder import SASL, recorded

pytestmark = pytest.mark.peer
LIFE_MS = 8000
"""Long enough for the tenth or less of it, that is left when a session is renewed, to be enough on a busy machine."""
PROTOCOL = "SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    node = RealKafka(
        tmp_path_factory.mktemp("ending"),
        listeners=("PLAINTEXT", PROTOCOL),
        properties={"connections.max.reauth.ms": str(LIFE_MS)},
    )
    with node:
        yield node


@pytest.mark.requirement("R-22", "H-37")
async def test_a_renewal_stands_alone_on_the_wire_and_what_caused_it_follows_at_once(kafka: RealKafka) -> None:
    settings = channel_settings(ClientConfig.from_properties(kafka.client_properties(PROTOCOL)))
    waiting = build(ApiKey.FETCH, max_wait_ms=50, min_bytes=1, topics=[])
    async with recorded("localhost", kafka.ports[PROTOCOL]) as tape:
        asked = await Channel.open("127.0.0.1", tape.port, settings)
        try:

            async def ask(request: object, version: int) -> None:
                while tape.handshakes() < 3:
                    await asked.call(request, version=version)
                    await asyncio.sleep(0.005)

            async with asyncio.timeout(60):
                await asyncio.gather(ask(waiting, 11), *(ask(MetadataRequest(topics=[]), 9) for _ in range(5)))
                assert (await asked.call(MetadataRequest(topics=[]))).brokers
        finally:
            await asked.close()
    assert len(tape.connections) == 1
    first, *_ = renewals = tape.renewals()
    assert len(renewals) == 2
    for renewal in renewals:
        sent = [key for key, is_request in renewal if is_request]
        # SCRAM: two tokens.
        assert sent[:-1] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE]
        assert sent[-1] not in SASL
        assert renewal.count((ApiKey.SASL_AUTHENTICATE, False)) == 2
    # Only these two requests there are, and no further connection (KIP-368).
    assert {key for key, _ in first if key in SASL} == SASL


@pytest.mark.requirement("R-23")
async def test_a_broker_whose_sessions_have_no_end_sees_no_second_login(real_kafka: RealKafka) -> None:
    settings = channel_settings(ClientConfig.from_properties(real_kafka.client_properties(PROTOCOL)))
    async with recorded("localhost", real_kafka.ports[PROTOCOL]) as tape:
        asked = await Channel.open("127.0.0.1", tape.port, settings)
        for _ in range(300):
            assert (await asked.call(MetadataRequest(topics=[]))).brokers
            await asyncio.sleep(0.005)
        await asked.close()
    assert tape.handshakes() == 1


@pytest.mark.requirement("R-21")
def test_the_kit_sees_from_outside_that_our_producer_renews_its_session(
    kafka: RealKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_create(kafka, "of-the-kit"))
    settings = kafka.client_config(PROTOCOL)
    kafka_is = ["--bootstrap-server", kafka.bootstrap(PROTOCOL), "--command-config", str(settings)]
    command = CLIENTS["Barnabas"].command()
    with pytest.raises(SystemExit) as ended:
        main(["reauth-check", *kafka_is, "--topic", "of-the-kit", "--client-command", command])
    said = capsys.readouterr()
    assert said.out.startswith("good     re-authenticates: its records arrived for"), said
    assert f"a session lasts {LIFE_MS // 1000} s; no record was lost" in said.out
    assert ended.value.code == 0


async def _create(kafka: RealKafka, topic: str) -> None:
    async with Admin(ClientConfig.from_properties(kafka.client_properties(PROTOCOL))) as admin:
        assert await admin.create_topics([NewTopic(topic)]) == {topic: None}
