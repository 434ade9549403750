"""Everything done once on brokers of Apache Kafka 3.9.1 and once on ours: what stands in ZooKeeper then is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.paths import CONSUMERS, child, is_covered, is_secret, kind_of
from barnabas.core.zookeeper.values import OPEN_ACLS
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.maven import ZOOKEEPER_KAFKA
from tests.peers.tools import TOPIC_COMMAND, ToolRunner
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, KILLED_MS, OURS, ZooKeeperCluster
from tests.zookeeper.migration.test_tool import wanted

from .test_mixed import all_know_the_same
from .workload import PROPERTIES, use_everything
from .znodes import Seen, comparable, read_tree

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

ACL_COMMAND: Final = "kafka.admin.AclCommand"
CONFIG_COMMAND: Final = "kafka.admin.ConfigCommand"
MAKES: Final = {"theirs": KAFKA, "ours": OURS}
BOTH: Final = pytest.mark.parametrize("make", MAKES)
_USER: Final = "--alter --entity-type users --entity-name tool"
COMMANDS: Final = (
    (ACL_COMMAND, "--add --allow-principal User:tool --producer --topic tool-made"),
    (ACL_COMMAND, "--add --allow-principal User:tool --consumer --topic t --group g --resource-pattern-type prefixed"),
    (ACL_COMMAND, "--add --deny-principal User:* --deny-host 10.0.0.1 --operation All --cluster"),
    (ACL_COMMAND, "--remove --force --allow-principal User:tool --operation Describe --topic tool-made"),
    (ACL_COMMAND, "--list"),
    (TOPIC_COMMAND, "--create --topic tool-made --replica-assignment 1:0,0:1 --config segment.bytes=1048576"),
    (TOPIC_COMMAND, "--alter --topic tool-made --partitions 3 --replica-assignment 1:0,0:1,0:1"),
    (CONFIG_COMMAND, "--alter --entity-type topics --entity-name tool-made --add-config retention.ms=6000000"),
    (CONFIG_COMMAND, "--describe --entity-type topics --entity-name tool-made"),
    (CONFIG_COMMAND, "--alter --entity-type brokers --entity-name 0 --add-config log.cleaner.threads=2"),
    (CONFIG_COMMAND, f"{_USER} --add-config SCRAM-SHA-256=[iterations=8192,password=pw]"),
    (CONFIG_COMMAND, f"{_USER} --add-config producer_byte_rate=4096"),
    (CONFIG_COMMAND, f"{_USER} --entity-type clients --entity-default --add-config request_percentage=50"),
    (CONFIG_COMMAND, "--describe --entity-type users"),
    (TOPIC_COMMAND, "--delete --topic tool-made"),
    (TOPIC_COMMAND, "--list"),
)  # fmt: skip
"""What an operator types; `--bootstrap-server` and the login come to it."""


@dataclass
class Made:
    """A cluster that has done everything. printed: what the tools said; trees: before and after them."""

    cluster: ZooKeeperCluster
    printed: list[str] = field(default_factory=list)
    trees: list[dict[str, Seen]] = field(default_factory=list)

    def look(self) -> None:
        """Keep what stands in ZooKeeper now."""
        self.trees.append(self.cluster.ask(read_tree))


@pytest.fixture(scope="module")
def made(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Made]]:
    """Give two clusters of two brokers each; all of one are Kafka's and all of the other ours."""
    found = {
        name: Made(
            ZooKeeperCluster(
                tmp_path_factory.mktemp(name),
                zookeeper,
                f"/as-kafkas/{name}",
                [make] * 2,
                jaas=zookeeper.client_jaas(),
                set_acl=True,
                properties=PROPERTIES,
            )
        )
        for name, make in MAKES.items()
    }
    for one in found.values():
        to_be_killed = one.cluster.brokers[1]
        to_be_killed.properties = {**to_be_killed.properties, "zookeeper.session.timeout.ms": str(KILLED_MS)}
    tools = ToolRunner(release=ZOOKEEPER_KAFKA)
    with found["theirs"].cluster, found["ours"].cluster, ThreadPoolExecutor() as threads:
        list(threads.map(lambda one: use_everything(one.cluster), found.values()))
        for one in found.values():
            one.look()
            operate(one, tools, tmp_path_factory.mktemp("tools"))
            one.look()
        tools.close()
        yield found


def operate(made: Made, tools: ToolRunner, folder: Path) -> None:
    login = folder / "client.properties"
    settings = made.cluster.brokers[0].client_properties()
    login.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    for tool, line in COMMANDS:
        where = ("--bootstrap-server", made.cluster.brokers[0].bootstrap, "--command-config", str(login))
        run = tools.run(tool, *where, *line.split())
        assert run.code == 0, f"{tool} {line}\n{run.stdout}{run.stderr}"
        made.printed.append(run.stdout)
        asyncio.run(all_know_the_same(made.cluster))  # the next one may ask the other broker


@pytest.mark.requirement("A-33", "Z-05", "Z-06")
@pytest.mark.parametrize("when", [0, 1], ids=["by clients", "by Kafka's tools"])
def test_what_stands_in_zookeeper_is_the_same(made: dict[str, Made], when: int) -> None:
    theirs, ours = (comparable(made[name].cluster, made[name].trees[when]) for name in MAKES)
    differing = {path: (theirs.get(path), ours.get(path)) for path in sorted(theirs.keys() | ours.keys())}
    assert {path: both for path, both in differing.items() if both[0] != both[1]} == {}


@pytest.mark.requirement("A-33")
def test_kafkas_tools_print_the_same(made: dict[str, Made]) -> None:
    for (tool, line), theirs, ours in zip(COMMANDS, made["theirs"].printed, made["ours"].printed, strict=True):
        said = [sorted(one.strip() for one in text.splitlines()) for text in (theirs, ours)]
        assert said[1] == said[0], f"{tool} {line}"


@BOTH
@pytest.mark.requirement("Z-05", "Z-06")
def test_everything_is_strict_and_secrets_are_unreadable(made: dict[str, Made], make: str) -> None:
    tree = made[make].trees[-1]
    assert {path: seen.acl for path, seen in tree.items()} == {path: wanted(path) for path in tree}
    kinds = {kind.pattern for path in tree if (kind := kind_of(path)) is not None}
    assert {
        "/brokers/ids/<broker>", "/brokers/topics/<topic>/partitions/<partition>/state", "/controller",
        "/controller_epoch", "/config/changes/config_change_<number>", "/config/users/<user>/clients/<client>",
        "/config/ips/<ip>", "/config/brokers/<broker>", "/delegation_token/tokens/<token>",
        "/delegation_token/token_changes/token_change_<number>", "/kafka-acl/<type>/<resource>",
        "/kafka-acl-changes/acl_changes_<number>", "/kafka-acl-extended/prefixed/<type>/<resource>",
        "/kafka-acl-extended-changes/acl_changes_<number>", "/latest_producer_id_block",
    } <= kinds  # fmt: skip


@BOTH
@pytest.mark.requirement("Z-07", "Z-08")
def test_who_has_not_logged_in_reads_and_changes_nothing(made: dict[str, Made], make: str) -> None:
    cluster, tree = made[make].cluster, made[make].trees[-1]

    async def intrude(zk: ZooKeeperClient) -> None:
        for path in filter(is_covered, tree):
            attempts = [
                zk.set(path, b"{}"),
                zk.set_acls(path, OPEN_ACLS),
                zk.create(child(path, "99"), b"{}", OPEN_ACLS),
            ]
            if path != "/":
                attempts.append(zk.delete(path))
            if is_secret(path):
                attempts.append(zk.get(path))
            else:
                assert (await zk.get(path))[0].decode() == tree[path].data or path.startswith("/brokers")
            outcomes = await asyncio.gather(*attempts, return_exceptions=True)
            assert {type(one) for one in outcomes} == {NoAuthError}, (path, outcomes)
        for rogue in ("/brokers/ids/99", "/controller"):
            with pytest.raises(NoAuthError):
                await zk.create(rogue, b'{"version":1,"brokerid":99}', OPEN_ACLS, ephemeral=True)
        await zk.create(child(CONSUMERS, make), b"", OPEN_ACLS)
        await zk.delete(child(CONSUMERS, make))

    before = cluster.controller().broker_id
    cluster.ask(intrude, user=None)
    assert cluster.controller().broker_id == before
