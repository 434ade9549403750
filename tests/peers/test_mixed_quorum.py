"""One of Apache Kafka's controllers and two of ours voting in one quorum: each leads in turn, the logs stay equal."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.server.dev_node import DevFiles
from tests.server.raft.quorums import LOG, Quorum, note, noted, running

from .apache import ApacheKafka
from .eventually import eventually
from .kafka_cluster import SMALLER_JVM

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

OURS, REAL = (1, 2), 3
PATIENT = {"controller.quorum.election.timeout.ms": "40000", "controller.quorum.fetch.timeout.ms": "40000"}
"""Where nobody leads, ours leave it to Kafka's controller to stand first."""
TOPICS = [f"t{n}" for n in range(10)]
WAIT_S = 120


@contextlib.contextmanager
def real_controller(quorum: Quorum) -> Iterator[None]:
    """Run Kafka's controller until the block ends, then stop it properly."""
    files = DevFiles(quorum.directory / f"kafka-{REAL}")
    files.directory.mkdir(exist_ok=True)
    own = {k: v for k, v in quorum.properties(REAL).items() if k not in PATIENT}
    own["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT"
    files.properties.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
    with open(files.directory / "log", "ab") as log:
        process = subprocess.Popen(ApacheKafka(SMALLER_JVM).command(files), stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def until_led_by(quorum: Quorum, *ids: int) -> int:
    """Wait until every one of our nodes follows, or is, one of these; give which."""
    async with asyncio.timeout(WAIT_S):
        while True:
            leaders = {n.replica.leader.node_id for n in quorum.nodes.values()}
            if len(leaders) == 1 and (leader := leaders.pop()) in ids:
                return leader
            await asyncio.sleep(0.02)


async def until_fetched(quorum: Quorum, leader: int) -> None:
    """Wait until Kafka's controller has on disk all that our leader has written by now."""

    async def fetched() -> bool:
        copy = quorum.directory_of(REAL) / LOG
        return copy.exists() and copy.read_bytes().startswith(written)

    written = (quorum.directory_of(leader) / LOG).read_bytes()
    await eventually(fetched, True, WAIT_S)


async def until_listening(port: int) -> None:
    """Wait until somebody takes connections there."""

    async def taken() -> bool:
        try:
            _, writer = await asyncio.open_connection("localhost", port)
        except OSError:
            return False
        writer.close()
        return True

    await eventually(taken, True, WAIT_S)


@pytest.mark.parametrize("static", [False, True])
async def test_leadership_moves_from_kafka_to_us_and_back(tmp_path: Path, static: bool) -> None:
    quorum = Quorum(tmp_path, static=static, settings=PATIENT)
    quorum.format(REAL)
    async with contextlib.AsyncExitStack() as stack:
        with real_controller(quorum):
            await until_listening(quorum.ports[REAL])
            await stack.enter_async_context(running(quorum, *OURS))
            await until_led_by(quorum, REAL)
        leader = await until_led_by(quorum, *OURS)
        for n, topic in enumerate(TOPICS):
            await quorum.nodes[leader].controller.write(note(topic, n))
        with real_controller(quorum):
            await until_fetched(quorum, leader)
            other = next(i for i in OURS if i != leader)
            await quorum.stop(other, leader)
            await quorum.start(other)
            await until_led_by(quorum, REAL)
            await quorum.start(leader)
            await until_led_by(quorum, REAL)
        leader = await until_led_by(quorum, *OURS)
        await quorum.nodes[leader].controller.write(note("last", 7))
        await quorum.agree()
        for node in quorum.nodes.values():
            known = noted(node.kraft.controller.committed_image, [*TOPICS, "last"])
            assert known == {"last": 7, **{topic: n for n, topic in enumerate(TOPICS)}}
        with real_controller(quorum):
            await until_fetched(quorum, leader)  # what it alone had written as a leader is cut off
    shorter, *longer = sorted(((quorum.directory_of(i) / LOG).read_bytes() for i in quorum.voters), key=len)
    assert len(shorter) > 1000
    assert all(log.startswith(shorter) for log in longer)
