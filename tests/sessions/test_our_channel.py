"""When and how a client of ours renews its session, as seen on the wire."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from barnabas.core.sasl.client import SaslClient, client_mechanism
from barnabas.core.sasl.session import renewal_after_ms
from barnabas.net.client import AuthenticationError, Channel, ChannelSettings, DisconnectedError
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest
from tests.server.frames import LOGIN, port_of, several_listeners
from tests.server.requests import build

from .nodes import SHORT, WorkingClock, killed, listener_bean, session_settings
from .recorder import SASL, recorded

LIVES = 2
LIFE_MS = 4000
SETTINGS = {"listener__name__short__connections__max__reauth__ms": str(LIFE_MS)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with (
        WorkingClock() as clock,
        Cluster(tmp_path_factory.mktemp("channel"), session_settings(**SETTINGS), conduct=clock) as found,
    ):
        yield found


def login(user: str = "root", password: str = "root-secret", mechanism: str = "PLAIN") -> SaslClient:
    return SaslClient(mechanism, client_mechanism(mechanism, user, password, partial(secrets.token_urlsafe, 24)))


@asynccontextmanager
async def channel(port: int, settings: ChannelSettings | None = None) -> AsyncIterator[Channel]:
    found = await Channel.open("127.0.0.1", port, settings or ChannelSettings(sasl=lambda host: login()))
    try:
        yield found
    finally:
        await found.close()


async def keep_asking(open_channel: Channel, renewed: asyncio.Event) -> int:
    """Ask without a pause until enough lives have gone by; gives how many answers there were."""
    count = 0
    while not renewed.is_set():
        assert (await open_channel.call(MetadataRequest(topics=[]))).brokers
        count += 1
        await asyncio.sleep(0.005)
    return count


@pytest.mark.slow
@pytest.mark.requirement("R-22", "R-31", "H-37")
async def test_a_renewal_stands_alone_on_the_wire_and_what_caused_it_follows_at_once(cluster: Cluster) -> None:
    cluster.create_topic("waited-for")
    before = killed(cluster)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    waiting = build(
        ApiKey.FETCH, max_wait_ms=50, min_bytes=1, topics=[{"topic": "waited-for", "partitions": [partition]}]
    )
    async with recorded("127.0.0.1", port_of(cluster, SHORT)) as tape, channel(tape.port) as asked:
        renewed = asyncio.Event()

        async def fetch_all_the_time() -> None:
            # One is under way whenever a session is to be renewed.
            while tape.handshakes() <= LIVES:
                assert (await asked.call(waiting, version=11)).error_code == 0
            renewed.set()

        async with asyncio.timeout(60):
            fetching = asyncio.create_task(fetch_all_the_time())
            counts = await asyncio.gather(*(keep_asking(asked, renewed) for _ in range(5)))
            await fetching
    assert all(count > 10 for count in counts)
    assert len(tape.connections) == 1
    renewals = tape.renewals()
    assert len(renewals) >= LIVES
    for renewal in renewals[:LIVES]:
        sent = [key for key, is_request in renewal if is_request]
        assert sent[:-1] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
        assert sent[-1] not in SASL
        # It goes out after the last answer of the exchange.
        assert renewal.index((ApiKey.SASL_AUTHENTICATE, False)) < len(renewal) - 1
    assert killed(cluster) == before


@pytest.mark.slow
async def test_a_request_without_an_answer_waits_for_the_renewal_too(cluster: Cluster) -> None:
    before = killed(cluster), listener_bean(cluster, SHORT)["successful-reauthentication-total"]
    cluster.create_topic("unanswered")
    produce = build(ApiKey.PRODUCE, acks=0, timeout_ms=1000, topic_data=[])
    async with recorded("127.0.0.1", port_of(cluster, SHORT)) as tape, channel(tape.port) as open_channel:
        async with asyncio.timeout(60):
            while tape.handshakes() < 2:
                await open_channel.send_unanswered(produce, version=9)
                await asyncio.sleep(0.01)
        assert (await open_channel.call(MetadataRequest(topics=[]))).brokers
        assert len(tape.connections) == 1
    assert killed(cluster) == before[0]
    assert listener_bean(cluster, SHORT)["successful-reauthentication-total"] >= before[1] + 1


@pytest.mark.slow
async def test_whoever_gives_up_during_a_renewal_leaves_the_connection_usable(cluster: Cluster) -> None:
    async with recorded("127.0.0.1", port_of(cluster, SHORT)) as tape, channel(tape.port) as asked:
        async with asyncio.timeout(60):
            while tape.handshakes() < 2:
                impatient = asyncio.create_task(asked.call(MetadataRequest(topics=[])))
                await asyncio.sleep(0)  # it has begun, and nobody has answered it
                impatient.cancel()
                await asyncio.wait([impatient])
                await asyncio.sleep(0.01)
            assert (await asked.call(MetadataRequest(topics=[]))).brokers
        assert len(tape.connections) == 1


@pytest.mark.slow
async def test_a_renewal_that_is_refused_ends_the_connection_and_is_not_tried_again(cluster: Cluster) -> None:
    passwords = ["root-secret"]

    def once(host: str) -> SaslClient:
        return login(password=passwords.pop() if passwords else "wrong")

    async with (
        recorded("127.0.0.1", port_of(cluster, SHORT)) as tape,
        channel(tape.port, ChannelSettings(sasl=once)) as asked,
    ):
        renewed = asyncio.Event()
        async with asyncio.timeout(60):
            askers = [asyncio.create_task(keep_asking(asked, renewed)) for _ in range(3)]
            done, _ = await asyncio.wait(askers)
        errors = {type(task.exception()) for task in done}
        assert AuthenticationError in errors
        assert errors <= {AuthenticationError, DisconnectedError}
        with pytest.raises(DisconnectedError):
            await asked.call(MetadataRequest(topics=[]))
        assert asked.is_closed
    assert tape.handshakes() == 2


@pytest.mark.slow
async def test_where_sessions_have_no_end_there_is_no_second_login(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("endless"), several_listeners()) as endless:
        async with recorded("127.0.0.1", port_of(endless, LOGIN)) as tape, channel(tape.port) as asked:
            for _ in range(200):
                assert (await asked.call(MetadataRequest(topics=[]))).brokers
                await asyncio.sleep(0.005)
        assert tape.handshakes() == 1


@pytest.mark.requirement("H-40")
def test_a_thousand_sessions_that_began_together_are_renewed_one_after_the_other() -> None:
    import random

    chance = random.Random(7)
    lifetime_ms = 300_000
    points = sorted(renewal_after_ms(lifetime_ms, chance.random()) or 0 for _ in range(1000))
    assert points[0] >= 0.85 * lifetime_ms
    assert points[-1] <= 0.95 * lifetime_ms
    # In no tenth of the window is more than a fifth of them.
    tenths = [0] * 10
    for point in points:
        tenths[min(9, int((point / lifetime_ms - 0.85) * 100))] += 1
    assert max(tenths) < 200
