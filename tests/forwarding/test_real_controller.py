"""Our Envelopes at a real Apache Kafka controller (KIP-590)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from barnabas.model.principal import KafkaPrincipal
from barnabas.server.forwarding.channel import ForwardingChannel
from barnabas.server.forwarding.controller_channel import ActiveController
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from tests.peers.kafka import RealKafka
from tests.server.requests import build, error_codes

from .scripted import Broker, broker_config, channel_of, client_request, forwarded

pytestmark = pytest.mark.peer
K = ApiKey


@pytest.fixture
async def channel(real_kafka: RealKafka) -> AsyncIterator[ForwardingChannel]:
    """Give our broker's way to the real controller."""
    leader = ActiveController(1, 1, "localhost", real_kafka.controller_port)
    async with channel_of(Broker(broker_config(request__timeout__ms="60000"), leader=leader)) as found:
        yield found


def topic(name: str) -> dict[str, Any]:
    """Give a topic as CreateTopics wants it."""
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


@pytest.mark.requirement("A-28", "F-16", "F-17", "F-27")
async def test_a_real_controller_serves_our_envelopes(channel: ForwardingChannel) -> None:
    for version in (2, 4, 5, 7):
        request = build(K.CREATE_TOPICS, topics=[topic(f"enveloped-{version}")], timeout_ms=20_000)
        denied = await forwarded(channel, request, version)
        assert [t.error_code for t in denied.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        ctx, _ = client_request(request, version)
        ctx.authz.principal = KafkaPrincipal("User", "admin")
        made = await channel.call(request, version, ctx)
        assert [t.error_code for t in made.topics] == [0]
    known = channel.controller_versions()
    assert known is not None
    assert known[K.ENVELOPE] == (0, 0)  # ours go up to 1


@pytest.mark.requirement("F-01", "F-02", "F-26")
async def test_every_forwarded_api_comes_back_with_an_answer(channel: ForwardingChannel) -> None:
    for row in API_KEYS.values():
        if not row.forwardable or "broker" not in row.listeners:
            continue
        for version in (row.min_version, row.max_version):
            answer = await forwarded(channel, build(row.key), version)
            assert isinstance(answer, row.response)
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in set(error_codes(answer)), (row.name, version, answer)


@pytest.mark.requirement("F-35", "F-36")
async def test_the_real_controllers_versions_are_known(channel: ForwardingChannel) -> None:
    await forwarded(channel, build(K.LIST_PARTITION_REASSIGNMENTS, topics=None))
    found = channel.controller_versions()
    assert found is not None
    assert found[K.CREATE_TOPICS] == (2, 7)
    assert K.PRODUCE not in found
