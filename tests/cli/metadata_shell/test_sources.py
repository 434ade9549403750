"""`barnabas metadata-shell` beside Kafka's, on what a real Apache Kafka and a node of ours have written."""

from __future__ import annotations

import operator
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.client.admin import Admin
from barnabas.model.acl import AclBindingFilter
from barnabas.model.config import format_properties
from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from barnabas.wire.record_batch import iter_headers
from tests.cli.conftest import PATIENCE_S, Barnabas, until
from tests.peers.kafka import RealKafka
from tests.peers.tools import METADATA_SHELL, run_tool

pytestmark = pytest.mark.peer


@pytest.fixture
def written(tool: Barnabas, barnabas: Barnabas, real_kafka: RealKafka, name: str) -> Iterator[str]:
    """Give the name of a topic that has a bit of everything in the metadata of the real Apache Kafka."""
    at = ("--bootstrap-server", real_kafka.bootstrap())
    tool("topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=77")
    tool("acls", "--add", "--allow-principal", f"User:{name}", "--operation", "Read", "--topic", name)
    made = barnabas("users", "create", name, "--password", "x", "--quota", "producer_byte_rate=20000000", *at)
    assert made.code == 0, made.err
    yield name
    barnabas("users", "delete", name, *at)
    tool("acls", "--remove", "--force", "--allow-principal", f"User:{name}", "--operation", "Read", "--topic", name)
    tool("topics", "--delete", "--topic", name)


def both(
    barnabas: Barnabas,
    file: Path,
    *words: str,
    without: str = "\n",
    alike: Callable[[list[str], list[str]], bool] = operator.eq,
) -> tuple[list[str], list[str]]:
    """Give the lines that we print and those of Kafka's shell, but for those that have `without` in them.

    Kafka's is asked again until they are alike: it begins with an empty image when its loader was quicker than what
    publishes the image to it.
    """
    ours = barnabas("metadata-shell", "--snapshot", str(file), "--show-secrets", *words)
    assert ours.code == 0, ours.err
    mine = [line for line in ours.out.splitlines() if without not in line]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lines = run_tool(METADATA_SHELL, "--snapshot", str(file), *words).splitlines()
        kafkas = [line for line in lines if without not in line]
        if alike(mine, kafkas) or time.monotonic() > deadline:
            return mine, kafkas


def copied(file: Path, to: Path) -> Path:
    """Give a copy: Kafka's shell reads nothing in a directory that a node has locked."""
    return Path(shutil.copy(file, to / file.name))


def test_a_log_reads_as_kafkas_shell_reads_it(
    barnabas: Barnabas, real_kafka: RealKafka, written: str, tmp_path: Path
) -> None:
    log = copied(real_kafka.log_dir / "__cluster_metadata-0" / f"{0:020d}.log", tmp_path)
    parts = ("features", "cluster", "topics", "configs", "clientQuotas", "producerIds", "scram", "delegationToken")
    ours, kafkas = both(barnabas, log, "tree", *(f"/image/{part}" for part in parts))
    assert ours == kafkas
    ours, kafkas = both(barnabas, log, "find", "/image")
    assert ours == kafkas
    ours, kafkas = both(barnabas, log, "ls", "/image/*", f"/image/topics/byName/{written}")
    assert ours == kafkas
    ours, kafkas = both(barnabas, log, "cat", f"/image/topics/byName/{written}/*", f"/image/configs/TOPIC:{written}/*")
    assert ours == kafkas
    ours, kafkas = both(barnabas, log, "ls", "/local", alike=lambda mine, kafkas: set(kafkas) <= set(mine))
    assert set(kafkas) <= set(ours)
    hidden = barnabas("metadata-shell", "-s", str(log), "cat", f"/image/scram/SCRAM-SHA-512/{written}")
    assert "salt=[redacted]" in hidden.out


@pytest.mark.requirement("A-29")
def test_acls_are_json_and_gone_when_deleted(
    tool: Barnabas, barnabas: Barnabas, real_kafka: RealKafka, written: str
) -> None:
    acls = ("metadata-shell", "--directory", str(real_kafka.log_dir), "tree", "/acl/id")
    rule = ("--allow-principal", f"User:{written}", "--operation", "Write", "--topic", written)
    assert tool("acls", "--add", *rule).code == 0
    shown = until(lambda: barnabas(*acls), lambda r: r.out.count(f"User:{written}") == 2)
    assert '"operation" : 4' in shown.out
    assert tool("acls", "--remove", "--force", *rule).code == 0
    until(lambda: barnabas(*acls), lambda r: r.out.count(f"User:{written}") == 1)


def test_the_quorum_itself_is_read(barnabas: Barnabas, real_kafka: RealKafka, tool: Barnabas, written: str) -> None:
    at = ("metadata-shell", "--bootstrap-controller", f"localhost:{real_kafka.controller_port}")
    (node,) = barnabas(*at, "ls", "/image/cluster/brokers").out.split()
    assert node == str(real_kafka.node_id)
    lines = ("cd /image/topics/byName", f"ls {written}", "pwd", "history", "cat {", "cat 'x", "exit", "pwd")
    talk = barnabas(*at, stdin="\n".join(lines))
    assert talk.out.splitlines()[:5] == ["0", "1", "id", "name", "/image/topics/byName"]
    assert talk.out.splitlines()[-2:] == ["cat: {: no such file or directory.", "No closing quotation."]
    assert barnabas(*at, "cat", "/nowhere").code == 1
    wrong = barnabas("metadata-shell", "--bootstrap-controller", "localhost:1", "ls")
    assert (wrong.code, "cannot connect" in wrong.err.lower()) == (1, True)


def test_a_snapshot_of_the_real_node(barnabas: Barnabas, tmp_path: Path) -> None:
    kafka = RealKafka(
        tmp_path, properties={"metadata.log.max.record.bytes.between.snapshots": "1"}, scram_users={"alice": "x"}
    )

    def newest() -> Path:
        return max((kafka.log_dir / "__cluster_metadata-0").glob("*.checkpoint"))

    with kafka:
        for n in range(3):
            made = barnabas("topics", "--bootstrap-server", kafka.bootstrap(), "--create", "--topic", f"t{n}")
            assert made.code == 0, made.err
        until(
            lambda: barnabas("metadata-shell", "-s", str(newest()), "ls", "/image/topics/byName"),
            lambda r: r.out.split() == ["t0", "t1", "t2"],
        )
    snapshot = newest()
    *_, (footer, _) = iter_headers(snapshot.read_bytes())
    # Kafka's shell waits without end for a file whose last batch is a control batch, as it is in every snapshot.
    open_ended = tmp_path / snapshot.name
    open_ended.write_bytes(snapshot.read_bytes()[:footer])
    ours, kafkas = both(barnabas, open_ended, "tree", "/image", without="offset")
    assert ours == kafkas
    users = barnabas("metadata-shell", "-s", str(kafka.log_dir / "bootstrap.checkpoint"), "ls", "/image/scram/*512")
    assert users.out.split() == ["admin", "alice"]
    end = int(snapshot.stem.split("-")[0])
    provenance = barnabas("metadata-shell", "-s", str(snapshot), "cat", "/image/provenance").out
    assert provenance.startswith(f"offset {end - 1}, epoch ")
    whole = barnabas("metadata-shell", "-d", str(kafka.log_dir), "ls", "/image/topics/byName").out
    assert whole.split() == ["t0", "t1", "t2"]


def test_a_node_of_ours(barnabas: Barnabas, barnabas_cluster: Cluster, tmp_path: Path, name: str) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(format_properties(barnabas_cluster.admin.java))
    with capture_logs():
        barnabas_cluster.create_topic(name)
        log = copied(barnabas_cluster.files.data / "__cluster_metadata-0" / f"{0:020d}.log", tmp_path)
        ours, kafkas = both(barnabas, log, "tree", f"/image/topics/byName/{name}")
        assert ours == kafkas


@pytest.mark.requirement("A-29")
def test_acls_of_a_node_of_ours_in_its_log_and_in_its_snapshot(barnabas: Barnabas, tmp_path: Path) -> None:
    with capture_logs(), Cluster(tmp_path / "node") as cluster:
        cluster.as_user("kept").allow("read", "topic", "ord", prefixed=True)
        gone = User(cluster, "gone", "")
        gone.allow("write", "topic", "orders")
        ids = {rule.principal: str(i) for i, rule in cluster.node.image().acls.by_id.items()}

        async def remove(_: object) -> None:
            async with Admin(cluster.admin.barnabas) as admin:
                assert len(await admin.delete_acls([AclBindingFilter(principal="User:gone")])) == 1
            await cluster.node.kraft.controller.snapshot()

        cluster.run(remove)
    folder = cluster.files.data / "__cluster_metadata-0"
    for file in (folder / f"{0:020d}.log", max(folder.glob("*.checkpoint"))):
        at = ("metadata-shell", "--snapshot", str(file))
        assert barnabas(*at, "ls", "/acl/id").out.split() == [ids["User:kept"]]
        shown = barnabas(*at, "cat", f"/acl/id/{ids['User:kept']}").json
        assert shown == {
            "id": ids["User:kept"], "resourceType": 2, "resourceName": "ord", "patternType": 4,
            "principal": "User:kept", "host": "*", "operation": 3, "permissionType": 3,
        }  # fmt: skip
        assert barnabas(*at, "cat", f"/acl/id/{ids['User:gone']}").code == 1
    ours, kafkas = both(barnabas, copied(folder / f"{0:020d}.log", tmp_path), "ls", "/image/acls/byId")
    assert ours == kafkas == [ids["User:kept"]]
