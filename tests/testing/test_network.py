"""The bad network between parties, with an echo in place of a node."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from barnabas.net.refusal import refuses
from barnabas.testing.network import CLIENTS, Network
from barnabas.testing.shape import Address, NodePlan
from tests.peers.eventually import eventually

ONE, TWO = 1, 2
ADDRESS_OF_TWO = "127.0.0.2"
SILENCE_S = 0.1
PATIENCE_S = 60


@pytest.fixture
def plan() -> NodePlan:
    return NodePlan(ONE, Address.free(proxied=True), None)


@pytest.fixture
def network(plan: NodePlan) -> Iterator[Network]:
    network = Network(dict, {ADDRESS_OF_TWO: TWO})
    network.start([plan])
    yield network
    network.stop()


@pytest_asyncio.fixture(autouse=True)
async def echo(plan: NodePlan) -> AsyncIterator[list[bytes]]:
    """Run what stands for node one: it answers with what it got, and remembers it."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            got.append(data)
            if not data.startswith(struct.pack(">i", 8 + 4)):
                writer.write(data)
            else:  # a frame: answer with its correlation id
                writer.write(struct.pack(">i", 4) + data[8:12])
        writer.close()

    assert plan.client is not None
    server = await asyncio.start_server(serve, "127.0.0.1", plan.client.bound)
    yield got
    server.close()


class Peer:
    """A connection from a party to node one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await asyncio.wait_for(self.reader.readexactly(len(data)), PATIENCE_S)

    async def is_silent(self) -> bool:
        try:
            await asyncio.wait_for(self.reader.readexactly(1), SILENCE_S)
        except TimeoutError:
            return True
        return False

    async def ended(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), PATIENCE_S) == b""
        except ConnectionError:
            return True


class Connect:
    """Makes connections, and closes them all in the end."""

    def __init__(self) -> None:
        self._peers: list[Peer] = []

    async def __call__(self, plan: NodePlan, address: str = "127.0.0.1") -> Peer:
        assert plan.client is not None
        opened = await asyncio.open_connection("127.0.0.1", plan.client.told, local_addr=(address, 0))
        self._peers.append(Peer(*opened))
        return self._peers[-1]

    async def close(self) -> None:
        for peer in self._peers:
            peer.writer.close()
            with contextlib.suppress(ConnectionError):
                await peer.writer.wait_closed()


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Connect]:
    made = Connect()
    yield made
    await made.close()


def tls_like(data: bytes) -> bytes:
    """Give bytes that are not looked into."""
    return b"\x16" + data


async def test_bytes_get_through_and_parties_are_told_apart(network: Network, plan: NodePlan, connect: Connect) -> None:
    client, two = await connect(plan), await connect(plan, ADDRESS_OF_TWO)
    assert await client.ask(tls_like(b"a" * 300_000)) == tls_like(b"a" * 300_000)
    assert await two.ask(tls_like(b"b")) == tls_like(b"b")
    assert network.connections(CLIENTS, ONE) == (1, 1)
    assert network.connections(TWO, ONE) == (1, 1)


async def test_a_partition_holds_what_is_sent_and_lets_it_through_once_it_heals(
    network: Network, plan: NodePlan, connect: Connect, echo: list[bytes]
) -> None:
    client, two = await connect(plan), await connect(plan, ADDRESS_OF_TWO)
    await two.ask(tls_like(b"before"))
    network.partition(ONE, TWO)
    two.writer.write(tls_like(b"held"))
    assert await two.is_silent()
    assert tls_like(b"held") not in echo
    later = await connect(plan, ADDRESS_OF_TWO)
    later.writer.write(tls_like(b"later"))
    assert await later.is_silent()
    assert await client.ask(tls_like(b"clients are not concerned")) == tls_like(b"clients are not concerned")
    network.heal()
    assert await asyncio.wait_for(two.reader.readexactly(5), PATIENCE_S) == tls_like(b"held")
    assert await asyncio.wait_for(later.reader.readexactly(6), PATIENCE_S) == tls_like(b"later")


async def test_one_direction_can_be_held_alone(
    network: Network, plan: NodePlan, connect: Connect, echo: list[bytes]
) -> None:
    two = await connect(plan, ADDRESS_OF_TWO)
    await two.ask(tls_like(b"before"))
    network.hold(ONE, TWO)
    two.writer.write(tls_like(b"asked"))

    async def last() -> bytes:
        return echo[-1]

    await eventually(last, tls_like(b"asked"))
    assert await two.is_silent()
    network.heal()
    assert await asyncio.wait_for(two.reader.readexactly(6), PATIENCE_S) == tls_like(b"asked")


async def test_who_hangs_up_behind_a_partition_is_not_noticed(
    network: Network, plan: NodePlan, connect: Connect
) -> None:
    two = await connect(plan, ADDRESS_OF_TWO)
    await two.ask(tls_like(b"before"))
    network.partition([ONE], [TWO])
    two.writer.close()
    assert network.connections(TWO, ONE)[0] == 1
    network.heal()

    async def left() -> int:
        return network.connections(TWO, ONE)[0]

    await eventually(left, 0)


async def test_a_slow_link_delays_and_narrows(network: Network, plan: NodePlan, connect: Connect) -> None:
    client = await connect(plan)
    await client.ask(tls_like(b"fast"))
    network.slow(CLIENTS, ONE, delay_ms=60)
    begun = time.monotonic()
    await client.ask(tls_like(b"slow"))
    assert time.monotonic() - begun >= 0.119
    network.slow(CLIENTS, ONE, bytes_per_s=100_000)
    begun = time.monotonic()
    await client.ask(tls_like(b"n" * 9_999))
    assert time.monotonic() - begun >= 0.099
    network.heal()
    await client.ask(tls_like(b"fast again"))


async def test_connections_can_be_reset(network: Network, plan: NodePlan, connect: Connect) -> None:
    client, two = await connect(plan), await connect(plan, ADDRESS_OF_TWO)
    await client.ask(tls_like(b"a"))
    await two.ask(tls_like(b"b"))
    assert network.reset(CLIENTS, ONE) == 1
    assert await client.ended()
    assert await two.ask(tls_like(b"c")) == tls_like(b"c")
    assert await (await connect(plan)).ask(tls_like(b"d")) == tls_like(b"d")


def request(api_key: int, correlation_id: int) -> bytes:
    return struct.pack(">ihhiI", 12, api_key, 0, correlation_id, 0)


async def test_an_answer_can_be_lost(network: Network, plan: NodePlan, connect: Connect, echo: list[bytes]) -> None:
    client = await connect(plan)
    cut = network.cut(CLIENTS, ONE, api_key=19, count=1)
    for number, api_key in enumerate((18, 19, 3)):
        client.writer.write(request(api_key, number))
        assert await asyncio.wait_for(client.reader.readexactly(8), PATIENCE_S) == struct.pack(">ii", 4, number)
    assert not cut.done
    client.writer.write(request(19, 7))
    assert await client.ended()
    assert cut.done
    assert echo[-1] == request(19, 7)
    again = await connect(plan)
    again.writer.write(request(19, 8))
    assert await asyncio.wait_for(again.reader.readexactly(8), PATIENCE_S) == struct.pack(">ii", 4, 8)


async def test_a_request_can_be_lost(network: Network, plan: NodePlan, connect: Connect, echo: list[bytes]) -> None:
    client = await connect(plan)
    cut = network.cut(CLIENTS, ONE, answered=False)
    client.writer.write(request(19, 7))
    assert await client.ended()
    assert cut.done
    assert echo == []


async def test_who_is_down_refuses_connections_until_it_is_there_again(connect: Connect) -> None:
    down = NodePlan(TWO, Address.free(proxied=True), None)
    assert down.client is not None
    told, bound = down.client.told, down.client.bound
    network = Network(dict)
    network.start([down])
    server = None

    async def refused() -> bool:
        return await refuses("127.0.0.1", told, 1_000)

    async def takes() -> bool:
        try:
            peer = await connect(down)
        except ConnectionRefusedError:
            return False
        return not await peer.ended()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(tls_like(b""))
        writer.close()

    try:
        assert await (await connect(down)).ended(), "nobody knew before"
        await eventually(refused, True)
        server = await asyncio.start_server(serve, "127.0.0.1", bound)
        await eventually(takes, True)
    finally:
        if server is not None:
            server.close()
        network.stop()


async def test_a_process_is_told_by_what_it_holds(plan: NodePlan) -> None:
    assert plan.client is not None
    program = (
        "import socket, sys; sys.stdin.readline(); "
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.readline()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", program, str(plan.client.told), stdin=asyncio.subprocess.PIPE
    )
    network = Network(lambda: {process.pid: TWO})
    network.start([plan])
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    try:

        async def connected() -> tuple[int, int]:
            return network.connections(TWO, ONE)

        await eventually(connected, (1, 1))
        assert network.connections(CLIENTS, ONE) == (0, 0)
        assert network.reset(ONE, TWO) == 1
    finally:
        process.kill()
        await process.wait()
        network.stop()
