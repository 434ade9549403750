"""The security migration tool of either system on the same tree: a cluster's with many partitions, on one server."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from tests.peers import kafka_zookeeper
from tests.peers.kafka_zookeeper import MIGRATOR
from tests.peers.maven import ZOOKEEPER_KAFKA, java, kafka_classpath
from tests.peers.zookeeper import ZooKeeper

from barnabas.core.zookeeper.paths import CONSUMERS, SECURE_ROOTS
from barnabas.core.zookeeper.security import is_open
from barnabas.core.zookeeper.values import OPEN_ACLS, Create
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import read_trees
from bench.goals import Measured, Results
from bench.systems import KAFKAS_JVM
from bench.zookeeper.server import zookeeper
from bench.zookeeper.sizes import Say, ZooKeeperSizes

CHROOT: Final = "/kafka"
_LIMIT_S: Final = 600
_BATCH: Final = 500
_PARTITIONS: Final = 10
_HEAP: Final = "-Xmx256M"
"""What kafka-run-class.sh passes to tools, beside what it passes to every JVM."""
_JVM: Final = (_HEAP, *(option for option in KAFKAS_JVM if not option.startswith(("-Xmx", "-Xms"))))


class ToolError(Exception):
    """A tool failed, or left something other than it should have; the text says what."""


def measure_tool(found: Mapping[str, Results], sizes: ZooKeeperSizes, say: Say) -> None:
    """Measure the systems in `found`, `kafka` and `barnabas`, in turn: each begins with what the other began with."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as work:
        (folder := Path(work, "zookeeper")).mkdir()
        with zookeeper(folder, secured=True) as server:
            asyncio.run(_plant(server, sizes.znodes))
            for number in range(-1, sizes.repeats):
                for system, results in found.items():
                    for mode in ("secure", "unsecure"):
                        say(f"  zookeeper-{mode}, {system}" + (", to warm up" if number < 0 else ""))
                        seconds, cpu_s = _run(system, mode, server, Path(work))
                        asyncio.run(_check(server, mode, sizes.znodes))
                        if number >= 0:
                            measured = results.setdefault(f"zookeeper-{mode}", Measured())
                            measured.values.append(seconds)
                            measured.cpu_us.append(cpu_s / sizes.znodes * 1e6)


def _run(system: str, mode: str, server: ZooKeeper, work: Path) -> tuple[float, float]:
    """Run a tool to its end; give how long it took, and the processor time that it took for itself."""
    login = f"-Djava.security.auth.login.config={server.client_jaas()}"
    words = [f"--zookeeper.acl={mode}", f"--zookeeper.connect={server.connect}{CHROOT}"]
    command: Sequence[str]
    if system == "kafka":
        logging = Path(kafka_zookeeper.__file__).with_name("log4j-migrator.properties")
        options = [*_JVM, login, f"-Dlog4j.configuration=file:{logging}"]
        command = [java(), *options, "-cp", kafka_classpath(ZOOKEEPER_KAFKA), MIGRATOR, *words]
    else:
        (undo := work / "undo").unlink(missing_ok=True)
        tool = Path(sys.executable).with_name("barnabas")
        command = [str(tool), "zookeeper-security-migration", *words, f"--undo-file={undo}"]
    # As pip installs it, with its byte code at hand, whatever this shell or the source tree is set up for.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"KAFKA_OPTS": login, "PYTHONPYCACHEPREFIX": str(work / "bytecode")}
    used, begun = _children_s(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=environment)
    took = time.perf_counter() - begun
    if done.returncode:
        raise ToolError(f"{system}, {mode}: {done.stdout}{done.stderr}")
    return took, _children_s() - used


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _check(server: ZooKeeper, mode: str, znodes: int) -> None:
    """See that a tool has done all of it: the time of one that has not would say nothing."""
    async with ZooKeeperClient(server.settings(chroot=CHROOT)) as zk:
        seen = await read_trees(zk, SECURE_ROOTS, lambda _: None)
    wrong = [z.path for z in seen.found if z.path != CONSUMERS and is_open(z.acls) is not (mode == "unsecure")]
    if wrong or len(seen.found) < znodes:
        raise ToolError(f"{mode}: {len(seen.found)} znodes, of which {len(wrong)} are not so: {wrong[:3]}")


async def _plant(server: ZooKeeper, znodes: int) -> None:
    """Make the tree of a cluster whose brokers are down."""
    async with ZooKeeperClient(server.settings(chroot=CHROOT)) as zk:
        await zk.make_chroot(OPEN_ACLS)
        left = islice(_tree(), znodes)
        while batch := list(islice(left, _BATCH)):
            await zk.multi([Create(path, data, OPEN_ACLS) for path, data in batch])


def _tree() -> Iterator[tuple[str, bytes | None]]:
    """Give paths and data, parents first, without an end: what Kafka 3.9 keeps of topics with two copies."""
    for path in ("/admin", "/admin/delete_topics", "/brokers", "/brokers/ids", "/brokers/seqid", "/brokers/topics"):
        yield path, None
    yield "/cluster", None
    yield "/cluster/id", b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}'
    for path in ("", "/topics", "/users", "/brokers", "/clients", "/ips", "/changes"):
        yield f"/config{path}", None
    for path in ("/consumers", "/isr_change_notification", "/log_dir_event_notification"):
        yield path, None
    yield "/controller_epoch", b"1"
    yield "/feature", b'{"features":{},"version":2,"status":1}'
    yield "/latest_producer_id_block", b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    number = 0
    while True:
        yield from _topic(f"events-{number}")
        number += 1


def _topic(name: str) -> Iterator[tuple[str, bytes | None]]:
    copies = {str(number): [number % 3, (number + 1) % 3] for number in range(_PARTITIONS)}
    topic = {"removing_replicas": {}, "partitions": copies, "topic_id": f"{name:A>22}"[:22], "adding_replicas": {}}
    yield f"/config/topics/{name}", b'{"version":1,"config":{"retention.ms":"86400000"}}'
    yield f"/brokers/topics/{name}", json.dumps(topic | {"version": 3}).encode()
    yield f"/brokers/topics/{name}/partitions", None
    for number, (leader, follower) in copies.items():
        state = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": [leader, follower]}
        yield f"/brokers/topics/{name}/partitions/{number}", None
        yield f"/brokers/topics/{name}/partitions/{number}/state", json.dumps(state).encode()
