"""What is done to a node: the same for both systems, bounded in count and time."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.peers.maven import java, kafka_classpath

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, ResourcePattern, ResourceType
from barnabas.model.config import Password
from barnabas.wire.errors import ApiError
from bench import requests
from bench.goals import Measured, Results
from bench.librdkafka import Librdkafka
from bench.rules import rules as many_rules
from bench.systems import System

PARTITIONS: Final = 3
USER: Final = "load"
PASSWORD: Final = "load-secret"
_TOPICS: Final = ("bench-1k", "bench-100", "bench-one", "bench-java")
_JAVA_LIMIT_S: Final = 300
_LOGIN_LIMIT_S: Final = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is done. limit_s bounds every single load; request_seconds: 0 for no one-record requests; lasting:
    records go on being written, and read from the beginning, until limit_s."""

    repeats: int
    records_1k: int
    records_100: int
    records_java: int
    request_seconds: float
    limit_s: float
    starts: int
    rules: int = 200_000
    lasting: bool = False


FULL: Final = Sizes(
    repeats=5,
    records_1k=1_000_000,
    records_100=6_000_000,
    records_java=1_000_000,
    request_seconds=6,
    limit_s=20,
    starts=3,
)
QUICK: Final = Sizes(
    repeats=2, records_1k=200_000, records_100=1_000_000, records_java=200_000, request_seconds=2, limit_s=8, starts=1
)
SESSION_S: Final = 5
"""How long a session lasts where it is to be renewed under load."""
SESSIONS_RULES: Final = 5_000
SESSIONS_FULL: Final = replace(FULL, repeats=3, request_seconds=0, limit_s=12, lasting=True)
SESSIONS_QUICK: Final = replace(QUICK, repeats=1, request_seconds=0, limit_s=8, lasting=True)
"""Longer than a session, each. The sockets of one-record requests know nothing of sessions that end."""
_NO_END: Final = 1 << 40
_A_REQUEST: Final = 1_000
"""How many ACLs are created at once."""

Say = Callable[[str], None]


class Loads:
    """The loads on one running node. suffix: appended to the keys of the results; others: so many ACLs that are not
    about the user of the load."""

    def __init__(
        self, system: System, sizes: Sizes, results: Results, say: Say, suffix: str = "", others: int = 0
    ) -> None:
        self._others = others
        self._system = system
        self._sizes = sizes
        self._results = results
        self._say = say
        self._suffix = suffix
        self._library = Librdkafka()
        self._config = system.user(USER, PASSWORD)

    def prepare(self) -> None:
        """Make the topics, and on a secured node the user with its rules."""
        asyncio.run(self._prepare())
        begin = time.monotonic()
        while True:  # both systems answer before the new user can log in
            try:
                requests.ask_for_brokers(self._config)
                return
            except (AuthenticationError, requests.RequestsError):
                if time.monotonic() - begin > _LOGIN_LIMIT_S:
                    raise
                time.sleep(0.1)

    def may_see(self) -> bool:
        """Say whether the user of the loads is let in and sees a topic, as only its rules allow."""
        return requests.may_see_topic(self._config, _TOPICS[0])

    async def _prepare(self) -> None:
        async with Admin(ClientConfig.from_properties(self._system.admin())) as admin:
            _raise(await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in _TOPICS]))
            if not self._system.secured:
                return
            _raise(await admin.alter_scram([ScramUpsertion(USER, "SCRAM-SHA-512", Password(PASSWORD))]))
            rules = [
                AclBinding(ResourcePattern(ResourceType.TOPIC, name), f"User:{USER}", "*", op, AclPermissionType.ALLOW)
                for name in _TOPICS
                for op in (AclOperation.READ, AclOperation.WRITE)
            ]
            rules += many_rules(self._others)
            for at in range(0, len(rules), _A_REQUEST):
                _raise(dict(enumerate(await admin.create_acls(rules[at : at + _A_REQUEST]))))

    def run(self) -> None:
        """Run all loads that both kinds of node get."""
        sizes = self._sizes
        library, config = self._library, self._config
        written = _NO_END if sizes.lasting else 0
        for _ in self._rounds("produce-1k"):
            self._note(
                "produce-1k",
                lambda: library.produce(
                    config, "bench-1k", records=written or sizes.records_1k, size=1000, limit_s=sizes.limit_s
                ),
                lambda rate: rate.mb_per_second,
            )
        for _ in self._rounds("fetch-1k"):
            self._note(
                "fetch-1k",
                lambda: library.fetch(
                    config,
                    "bench-1k",
                    partitions=PARTITIONS,
                    records=sizes.records_1k,
                    size=1000,
                    limit_s=sizes.limit_s,
                    again=sizes.lasting,
                ),
                lambda rate: rate.mb_per_second,
            )
        for _ in self._rounds("produce-100"):
            self._note(
                "produce-100",
                lambda: library.produce(
                    config, "bench-100", records=written or sizes.records_100, size=100, limit_s=sizes.limit_s
                ),
                lambda rate: rate.records_per_second,
            )
        for connections in (1, 16, 256) if sizes.request_seconds else ():
            self._requests(connections)

    def run_java(self, folder: Path) -> None:
        """Run Kafka's own performance tools."""
        config = folder / "client.properties"
        config.write_text("".join(f"{k}={v}\n" for k, v in self._config.items()))
        count = str(self._sizes.records_java)
        for _ in self._rounds("java-produce"):
            printed = run_java(
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", "bench-java", "--num-records", count, "--record-size", "1000", "--throughput", "-1"),
                *("--command-config", str(config), "--command-property", "acks=all"),
            )
            rates = re.findall(r"records sent, ([\d.]+) records/sec", printed)
            self._results.setdefault("java-produce", Measured()).values.append(float(rates[-1]) * 1000 / 1e6)
        for number in self._rounds("java-consume"):
            printed = run_java(
                "org.apache.kafka.tools.ConsumerPerformance",
                *("--topic", "bench-java", "--num-records", count, "--group", f"perf-{number}"),
                *("--bootstrap-server", self._config["bootstrap.servers"], "--command-config", str(config)),
            )
            header, values = printed.strip().splitlines()[-2:]
            found = dict(zip(header.split(", "), values.split(", "), strict=True))
            # fetch.nMsg.sec leaves joining the group out
            rate = float(found["fetch.nMsg.sec"]) * 1000 / 1e6
            self._results.setdefault("java-consume", Measured()).values.append(rate)

    def _requests(self, connections: int) -> None:
        key = f"requests-{connections}"
        for _ in self._rounds(key):
            measured = self._note(
                key,
                lambda: requests.run(
                    self._config, "bench-one", connections=connections, seconds=self._sizes.request_seconds
                ),
                lambda latencies: latencies.per_second,
                count="requests",
            )
            if connections > 1:
                self._results.setdefault(f"{key}-p99{self._suffix}", Measured()).values.append(measured.p99_ms)

    def _rounds(self, key: str) -> range:
        """Name the row, and give its repetitions."""
        self._say(f"  {key}{self._suffix}")
        return range(self._sizes.repeats)

    def _note(self, key: str, load: Callable[[], Any], value: Callable[[Any], float], count: str = "records") -> Any:
        before = self._system.cpu_s()
        outcome = load()
        spent = self._system.cpu_s() - before
        measured = self._results.setdefault(key + self._suffix, Measured())
        measured.values.append(value(outcome))
        measured.cpu_us.append(spent / getattr(outcome, count) * 1e6)
        return outcome

    def warm_up(self) -> None:
        """Run the loads for a moment and forget the figures: a JVM compiles what runs often."""
        sizes = self._sizes
        small = replace(
            sizes,
            repeats=1,
            request_seconds=min(3.0, sizes.request_seconds),
            limit_s=min(5.0, sizes.limit_s),
        )
        Loads(self._system, small, {}, lambda _: None, self._suffix).run()


def _raise(outcomes: Mapping[Any, ApiError | None]) -> None:
    for refused in outcomes.values():
        if refused is not None:
            raise refused


def run_java(main_class: str, *args: str) -> str:
    """Run a main class of Kafka's and give what it printed; RuntimeError when it fails."""
    done = subprocess.run(
        [java(), "-Xmx512M", "-cp", kafka_classpath(), main_class, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=_JAVA_LIMIT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{main_class}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
