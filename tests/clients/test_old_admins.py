"""Admin clients of many years, each aiming at the controller that Metadata names, at brokers that are none.

What an old client and Apache Kafka 4 share of the APIs that change metadata:

| client | topics, partitions, AlterConfigs | IncrementalAlterConfigs | CreateAcls, DeleteAcls |
|---|---|---|---|
| Java 1.1 | yes | not in it | only version 0, which Kafka 4.0 dropped (KIP-896) |
| Java 2.3 | yes | yes | yes |
| Java 4.3 | all but AlterConfigs, which its API lacks | yes | yes |
| kafka-python 2.0 | yes | not in it | yes |
| kafka-python now | yes | yes | yes |
| librdkafka 2.0 | yes | not in it | yes |
| librdkafka now | yes | yes | yes |

The other APIs came after 2.3, and clients that speak those were made for brokers that forward.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.server.config import AUTHORIZERS
from barnabas.testing.local import LocalCluster
from barnabas.testing.network import CLIENTS
from barnabas.wire.errors import ErrorCode
from tests.peers.maven import clients_classpath, compiled, java, kafka_classpath
from tests.peers.pypi import installed

pytestmark = pytest.mark.peer
_HERE: Final = Path(__file__).resolve().parent / "old_admins"
_BUILT_AGAINST: Final = "2.3.1"
E = ErrorCode
Outcome = ErrorCode | None
"""What came of a call: an error's code, or None where the client has no such call."""


class Client(NamedTuple):
    """How to start a client that does what the lines of its standard input say."""

    command: list[str]
    path: str = ""


def java_client(classpath: str) -> Client:
    classes = compiled(_HERE / "Admins.java", clients_classpath(_BUILT_AGAINST))
    options = ["-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return Client([java(), *options, "-cp", f"{classpath}:{classes}", "Admins"])


def python_client(script: str, requirement: str = "") -> Client:
    return Client([sys.executable, str(_HERE / script)], str(installed(requirement)) if requirement else "")


CLIENTS_BY_NAME: Final[dict[str, Callable[[], Client]]] = {
    "Java 1.1": lambda: java_client(clients_classpath("1.1.1")),
    "Java 2.3": lambda: java_client(clients_classpath("2.3.1")),
    "Java 4.3": lambda: java_client(kafka_classpath()),
    "kafka-python 2.0": lambda: python_client("by_kafka_python.py", "kafka-python==2.0.6"),
    "kafka-python now": lambda: python_client("by_kafka_python.py"),
    "librdkafka 2.0": lambda: python_client("by_confluent_kafka.py", "confluent-kafka==2.0.2"),
    "librdkafka now": lambda: python_client("by_confluent_kafka.py"),
}
LACKING: Final = {
    "Java 1.1": {"incremental", "allow", "disallow"},
    "Java 4.3": {"alter"},
    "kafka-python 2.0": {"incremental"},
    "librdkafka 2.0": {"incremental"},
}


class Admins:
    """A client at work."""

    def __init__(self, client: Client, bootstrap: str) -> None:
        path = os.pathsep.join(filter(None, (client.path, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [*client.command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        )

    def ask(self, line: str) -> Outcome:
        """Do what a line says."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer, f"the client has ended at: {line}"
        return None if answer == "absent" else ErrorCode(int(answer))

    def end(self) -> None:
        """End it, however it is."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Give three brokers and a controller that no client can reach."""
    secured = {"authorizer.class.name": AUTHORIZERS[1], "super.users": "User:ANONYMOUS"}
    folder = tmp_path_factory.mktemp("old-admins")
    with LocalCluster(folder, controllers=1, brokers=3, plaintext=True, proxied=True, properties=secured) as cluster:
        cluster.network.partition(CLIENTS, 101)
        yield cluster


@pytest.fixture(params=list(CLIENTS_BY_NAME))
def client(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[tuple[str, Admins]]:
    """Give each client, told of one broker."""
    admins = Admins(CLIENTS_BY_NAME[request.param](), cluster.node(2).bootstrap)
    yield request.param, admins
    admins.end()
    assert cluster.network.connections(CLIENTS, 101) == (0, 0)


def configs_of(cluster: LocalCluster, bootstrap: str, topic: str) -> dict[str, str | None]:
    """Give a topic's configuration as one broker tells it."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = cluster.ask(lambda admin: admin.describe_configs([resource]), bootstrap)[resource]
    assert not isinstance(found, Exception), found
    return {row.name: row.value for row in found}


@pytest.mark.requirement("F-15", "F-01", "F-02")
def test_what_old_clients_can_ask_for_comes_out_as_with_new_ones(
    client: tuple[str, Admins], cluster: LocalCluster, name: str
) -> None:
    release, admins = client
    story: list[tuple[str, ErrorCode]] = [
        (f"create {name} 2 3", E.NONE),
        (f"create {name} 2 3", E.TOPIC_ALREADY_EXISTS),
        (f"create {name}-x 1 9", E.INVALID_REPLICATION_FACTOR),
        (f"create {name}-x 1 1 cleanup.policy soon", E.INVALID_CONFIG),
        (f"grow {name} 4", E.NONE),
        (f"grow {name} 1", E.INVALID_PARTITIONS),
        (f"grow {name}-x 3", E.UNKNOWN_TOPIC_OR_PARTITION),
        (f"alter {name} retention.ms 7000", E.NONE),
        (f"alter {name} retention.ms soon", E.INVALID_CONFIG),
        (f"incremental {name} segment.ms 8000", E.NONE),
        (f"incremental {name} segment.ms soon", E.INVALID_CONFIG),
        (f"allow {name} User:x", E.NONE),
    ]
    lacking = LACKING.get(release, set())
    for line, expected in story:
        assert admins.ask(line) == (None if line.split()[0] in lacking else expected), line

    other = cluster.node(3).bootstrap  # the effect shows at a broker that the client was not told of
    wanted = {
        **({} if "alter" in lacking else {"retention.ms": "7000"}),
        **({} if "incremental" in lacking else {"segment.ms": "8000"}),
    }
    cluster.wait_for(
        lambda: cluster.ask(lambda a: a.topics(), other),
        lambda topics: name in topics and len(topics[name].partitions) == 4,
        name,
    )
    cluster.wait_for(
        lambda: configs_of(cluster, other, name),
        lambda found: wanted.items() <= found.items(),
        f"configs of {name}",
    )

    rest = [
        (f"disallow {name} User:x", E.NONE),
        (f"delete {name}-x", E.UNKNOWN_TOPIC_OR_PARTITION),
        (f"delete {name}", E.NONE),
    ]
    for line, expected in rest:
        assert admins.ask(line) == (None if line.split()[0] in lacking else expected), line
    cluster.wait_for(lambda: cluster.ask(lambda a: a.topics(), other), lambda topics: name not in topics, "gone")
