"""`barnabas acls explain` and `acls lint` on live clusters and their files: a real Apache Kafka's, and ours."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.core.authorizer.explain import Question, explain
from barnabas.core.sasl.client import client_mechanism
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.config import format_properties
from barnabas.model.principal import KafkaPrincipal
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.cli.conftest import Barnabas, Run, until
from tests.clients.nodes import until as until_it_is
from tests.mechanisms.logins import log_in
from tests.peers.kafka import RealKafka
from tests.server.frames import FramePeer, port_of
from tests.server.requests import build
from tests.sessions.nodes import LONG, OPEN, session_settings

HOST = "127.0.0.1"
SCRAM = "SCRAM-SHA-256"
Ask = Callable[..., Run]


def asking(barnabas: Barnabas, user: str, topic: str, *source: str) -> Ask:
    """Give the question whether a user may read a topic; further words go behind it."""
    who = ("--principal", f"User:{user}", "--host", HOST, "--operation", "read", "--topic", topic)
    return lambda *words: barnabas("acls", "explain", *source, *who, *words)


def do(barnabas: Barnabas, told: Any, *source: str) -> None:
    """Run the commands that an explanation proposes."""
    for command in told["changes"][0]["commands"]:
        program, tool, action, *words = shlex.split(command)
        force = ["--force"] if action == "--remove" else []
        ran = barnabas(tool, *source, action, *force, *words)
        assert (program, ran.code) == ("barnabas", 0), ran.err


@pytest.mark.peer
def test_what_is_proposed_for_a_live_apache_kafka_turns_its_answer_round(
    barnabas: Barnabas, real_kafka: RealKafka, name: str, tmp_path: Path
) -> None:
    source = ("--bootstrap-server", real_kafka.bootstrap())
    login = tmp_path / "alice.properties"
    settings = real_kafka.client_properties("SASL_PLAINTEXT", "alice", "alice-secret", "SCRAM-SHA-256")
    login.write_text(format_properties(settings))
    assert barnabas("topics", *source, "--create", "--topic", name).code == 0
    ask = asking(barnabas, "alice", name, *source)

    def reads() -> Run:
        flags = ("--topic", name, "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
        return barnabas("consume", "--command-config", str(login), *flags)

    assert barnabas("produce", *source, "--topic", name, stdin="hello\n").code == 0
    told = ask("--output", "json").json
    assert (told["allowed"], told["decided_by"], told["considered"]) == (False, "DefaultDeny", [])
    assert any("DescribeAcls tells neither ids" in note for note in told["notes"])
    assert any("sets super.users and keeps the value to itself" in note for note in told["settings"]["notes"])
    assert "Not authorized" in reads().err
    do(barnabas, told, *source)
    granted = until(lambda: ask("--output", "json"), lambda r: bool(r.json["allowed"])).json
    assert "id" not in granted["rule"]
    assert "hello" in until(reads, lambda r: r.code == 0).out
    do(barnabas, granted, *source)
    refused = until(lambda: ask("--output", "json"), lambda r: not r.json["allowed"]).json
    assert refused["rule"]["permission"] == "DENY"
    until(reads, lambda r: "Not authorized" in r.err)
    do(barnabas, refused, *source)
    assert "hello" in until(reads, lambda r: r.code == 0).out
    assert barnabas("acls", *source, "--remove", "--force", "--topic", name).code == 0


def producer_id(port: int, user: str) -> ErrorCode:
    """Ask for a producer id, as a producer without transactions does; gives the error."""
    with FramePeer(port) as peer:
        log_in(peer, SCRAM, client_mechanism(SCRAM, user, "x", lambda: "nonce-of-the-test"))
        return ErrorCode(peer.call(build(ApiKey.INIT_PRODUCER_ID, transactional_id=None), 4).error_code)


@pytest.mark.peer
@pytest.mark.parametrize("software", ["Apache Kafka", "ours"])
def test_what_is_proposed_about_any_topic_turns_the_answer_to_a_producer_round(
    barnabas: Barnabas, real_kafka: RealKafka, name: str, tmp_path: Path, software: str
) -> None:
    with ExitStack() as stack:
        if software == "ours":
            cluster = stack.enter_context(Cluster(tmp_path / "node", session_settings()))
            source, port = ("--bootstrap-server", f"127.0.0.1:{port_of(cluster, OPEN)}"), port_of(cluster, LONG)
            directory = cluster.files.data
        else:
            source, port = ("--bootstrap-server", real_kafka.bootstrap()), real_kafka.ports["SASL_PLAINTEXT"]
            directory = real_kafka.log_dir
        assert barnabas("users", "create", name, "--password", "x", "--mechanism", SCRAM, *source).code == 0
        who = ("--principal", f"User:{name}", "--host", HOST, "--operation", "write", "--any-topic", "--output", "json")

        def asked(*where: str) -> Any:
            return barnabas("acls", "explain", *who, *where).json

        answers = []
        # Denied; granted some topic; refused all; no longer refused.
        for expected in (False, True, False, True):
            told = until_it_is(lambda: asked(*source), lambda found, e=expected: found["allowed"] is e)  # type: ignore[misc]
            by_files = until_it_is(
                lambda: asked("--metadata", str(directory)),
                lambda found, e=expected: found["allowed"] is e,  # type: ignore[misc]
            )
            assert [c["name"] for c in by_files["considered"]] == [c["name"] for c in told["considered"]]
            refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            wanted = ErrorCode.NONE if expected else refused
            until_it_is(lambda: producer_id(port, name), lambda code, w=wanted: code is w)  # type: ignore[misc]
            answers.append(told["decided_by"])
            do(barnabas, told, *source)
        assert answers == ["DefaultDeny", "ACL", "ACL", "ACL"]
        assert barnabas("users", "delete", name, *source).code == 0
        everything = ("--resource-pattern-type", "any", "--force", "--topic", "NAME")
        assert barnabas("acls", *source, "--remove", *everything).code == 0
        assert barnabas("acls", *source, "--remove", "--force", "--topic", "*", "--deny-principal", f"User:{name}",
                        "--deny-host", HOST, "--operation", "write").code == 0  # fmt: skip


@pytest.mark.peer
def test_files_and_quorum_of_an_apache_kafka_tell_ids_and_offsets(
    barnabas: Barnabas, real_kafka: RealKafka, tool: Barnabas, name: str, tmp_path: Path
) -> None:
    rule = ("--allow-principal", f"User:{name}", "--operation", "Read", "--topic", name)
    assert tool("acls", "--add", *rule).code == 0
    by_files = asking(barnabas, name, name, "--metadata", str(real_kafka.log_dir))
    by_quorum = asking(barnabas, name, name, "--bootstrap-controller", f"localhost:{real_kafka.controller_port}")
    told = until(lambda: by_files("--output", "json"), lambda r: bool(r.json["allowed"])).json
    assert not told["rule"]["by_snapshot"]
    assert by_quorum("--output", "json").json["rule"] == told["rule"]
    shell = ("metadata-shell", "--directory", str(real_kafka.log_dir), "cat", f"/acl/id/{told['rule']['id']}")
    assert f'"User:{name}"' in barnabas(*shell).out
    segment = real_kafka.log_dir / "__cluster_metadata-0" / f"{0:020d}.log"
    dumped = barnabas(
        *("dump-log", "--cluster-metadata-decoder", "--files", shutil.copy(segment, tmp_path / segment.name))
    )
    (line,) = [line for line in dumped.out.splitlines() if told["rule"]["id"] in line]
    assert f"offset: {told['rule']['metadata_offset']} " in line
    assert tool("acls", "--remove", "--force", *rule).code == 0
    until(lambda: by_files("--output", "json"), lambda r: not r.json["allowed"])


@pytest.mark.peer
def test_faults_in_the_rules_of_an_apache_kafka(
    barnabas: Barnabas, real_kafka: RealKafka, tool: Barnabas, name: str
) -> None:
    principal = f"User:{name.upper()}"
    for rule in (("--topic", f"{name}*"), ("--topic", name, "--allow-host", "localhost")):
        assert tool("acls", "--add", "--allow-principal", principal, "--operation", "Read", *rule).code == 0

    def faults(run: Run) -> set[tuple[str, str]]:
        assert run.code == 1, run.err
        found = Run(0, run.out, run.err).json
        return {(f["finding"], f["rule"]["name"]) for f in found if f["rule"]["principal"] == principal}

    for source in (("--bootstrap-server", real_kafka.bootstrap()), ("--metadata", str(real_kafka.log_dir))):
        lint = ("acls", "lint", *source, "--seen-principal", f"User:{name}", "--output", "json")
        run = until(partial(barnabas, *lint), lambda r: {("pattern", f"{name}*"), ("host", name)} <= faults(r))
        assert {kind for kind, _ in faults(run)} == {"pattern", "host", "principal"}
    assert barnabas("acls", "lint", "--bootstrap-server", "localhost:1").code == 2
    for topic in (f"{name}*", name):
        assert tool("acls", "--remove", "--force", "--topic", topic).code == 0


@pytest.mark.slow
def test_a_node_of_ours_live_and_by_its_files(
    barnabas: Barnabas, barnabas_cluster: Cluster, name: str, tmp_path: Path
) -> None:
    login = tmp_path / "admin.properties"
    login.write_text(format_properties(barnabas_cluster.admin.java))
    source = ("--bootstrap-server", barnabas_cluster.bootstrap, "--command-config", str(login))
    live = asking(barnabas, name, name, *source)
    files = asking(barnabas, name, name, "--metadata", str(barnabas_cluster.files.data))
    barnabas_cluster.create_topic(name)
    told = live("--output", "json").json
    assert (told["allowed"], files("--output", "json").json["allowed"]) == (False, False)
    do(barnabas, told, *source)
    granted = until(lambda: live("--output", "json"), lambda r: bool(r.json["allowed"])).json
    by_files = files("--output", "json").json
    assert by_files["allowed"]
    assert {k: v for k, v in by_files["rule"].items() if k in granted["rule"]} == granted["rule"]
    for where in (source, ("--metadata", str(barnabas_cluster.files.data))):
        found = barnabas("acls", "lint", *where, "--super-users", f"User:{name}")
        assert (found.code, "a super user passes before any rule" in found.out) == (1, True), found.err
    admin = asking(barnabas, "admin", name, *source)
    assert "Node 1 sets super.users and keeps the value to itself" in admin().out
    assert "a super user passes" in admin("--super-users", "User:admin").out


@pytest.mark.slow
async def test_the_same_from_python(barnabas_cluster: Cluster) -> None:
    async with Admin(ClientConfig.from_properties(barnabas_cluster.admin.java)) as admin:
        authorizer = await admin.authorizer({"User:admin"})
    question = Question(KafkaPrincipal("User", "nobody"), HOST, AclOperation.READ, ResourceType.TOPIC, "t")
    told = explain(authorizer, question)
    assert not told.allowed
    assert told.changes[0].applied(authorizer).authorize(*question).allowed
    assert explain(authorizer, question._replace(principal=KafkaPrincipal("User", "admin"))).allowed


@pytest.mark.peer
def test_a_snapshot_of_an_apache_kafka(barnabas: Barnabas, tmp_path: Path) -> None:
    """Its log from before the snapshot is there: it tells the offsets that the snapshot alone does not."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    kafka = RealKafka(tmp_path, properties=settings, authorizer=True)

    def newest() -> str:
        return str(max((kafka.log_dir / "__cluster_metadata-0").glob("*.checkpoint")))

    rule = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    with kafka:
        assert barnabas("acls", "--bootstrap-server", kafka.bootstrap(), "--add", *rule).code == 0
        snapshot = until(
            lambda: asking(barnabas, "alice", "orders", "--metadata", newest())("--output", "json"),
            lambda r: bool(r.json["allowed"]),
        ).json["rule"]
    whole = asking(barnabas, "alice", "orders", "--metadata", str(kafka.log_dir))("--output", "json").json["rule"]
    assert (snapshot["by_snapshot"], whole["by_snapshot"], whole["id"]) == (True, False, snapshot["id"])
    assert whole["metadata_offset"] < snapshot["metadata_offset"]
