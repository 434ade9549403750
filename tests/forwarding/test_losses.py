"""Forwarding while the controllers are lost, one after the other or all at once (KIP-590)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.logs import logged_by_logging
from barnabas.testing.processes import ProcessCluster
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from tests.server.frames import FramePeer
from tests.server.requests import build, error_codes

from .in_process import ANSWER_LIMIT_S, InProcess
from .scripted import request_with_elements

pytestmark = pytest.mark.slow
K = ApiKey
FORWARDED = [row for row in API_KEYS.values() if row.forwardable and "broker" in row.listeners]
TOKENS = {K.CREATE_DELEGATION_TOKEN, K.RENEW_DELEGATION_TOKEN, K.EXPIRE_DELEGATION_TOKEN}


@pytest.fixture
def caught(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Catch what the nodes log."""
    with logged_by_logging(), caplog.at_level(logging.INFO):
        yield caplog


@pytest.mark.requirement("F-25", "H-07", "F-23", "F-43")
def test_a_broker_without_controllers_and_then_without_rights(tmp_path: Path, caught: pytest.LogCaptureFixture) -> None:
    with InProcess(tmp_path, controllers=(101,), brokers=(2,), request__timeout__ms="3000") as cluster:

        def ask(row: Any, version: int) -> Any:
            request = request_with_elements(row, version)
            for resource in getattr(request, "resources", ()):
                resource.resource_type = 2  # a topic: what the broker does itself has nothing to do with controllers
            with cluster.frames(2) as peer:
                return peer.call(request, version)

        def ask_all(expected: ErrorCode) -> None:
            asked = [(row, version) for row in FORWARDED for version in {row.min_version, row.max_version}]
            with ThreadPoolExecutor(len(asked)) as threads:
                answers = list(threads.map(lambda one: ask(*one), asked))
            for (row, version), answer in zip(asked, answers, strict=True):
                assert set(error_codes(answer)) <= {expected, ErrorCode.NONE}, (row.name, version)
                assert expected in set(error_codes(answer)), (row.name, version)

        cluster.active()
        cluster.stop_node(101)
        ask_all(ErrorCode.REQUEST_TIMED_OUT)
        resource = {"resource_type": 4, "resource_name": "2", "configuration_keys": None}
        every_acl: dict[str, Any] = {
            "resource_type_filter": 1,
            "pattern_type_filter": 1,
            "operation": 1,
            "permission_type": 1,
        }
        nobody_named: dict[str, Any] = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        for answer in (
            cluster.ask(2, K.DESCRIBE_CONFIGS, resources=[resource]),
            cluster.ask(2, K.DESCRIBE_ACLS, **every_acl, **nobody_named),
            cluster.ask(2, K.DESCRIBE_CLIENT_QUOTAS, components=[]),
            cluster.ask(2, K.METADATA, topics=None),
        ):
            assert set(error_codes(answer)) <= {0}

        cluster.start_node(101)
        cluster.stop_node(2)
        cluster.start_node(2, request__timeout__ms="90000")  # what is refused is to be refused before its time is up
        cluster.active()
        mine: dict[str, Any] = {"principal_filter": "User:broker-2", "resource_name_filter": None, "host_filter": None}
        any_rule = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        gone = cluster.ask(101, K.DELETE_ACLS, filters=[{**mine, **any_rule}])
        assert [len(f.matching_acls) for f in gone.filter_results] == [1]
        caught.clear()
        ask_all(ErrorCode.UNKNOWN_SERVER_ERROR)
        said = [r for r in caught.records if r.levelno == logging.WARNING and "Envelope" in r.getMessage()]
        assert {vars(r)["error"] for r in said} == {"CLUSTER_AUTHORIZATION_FAILED"}
        assert all("CLUSTER_ACTION" in vars(r)["remedy"] and vars(r)["client_id"] == "frames" for r in said)
        assert len(said) <= 2 * len(FORWARDED)


class Admin(threading.Thread):
    """Creates topics and changes their configs through one broker, one after the other, without ever trying again."""

    def __init__(self, port: int, user: str | None) -> None:
        super().__init__(daemon=True)
        self._port, self._user = port, user
        self._enough = threading.Event()
        self.done: dict[str, str] = {}
        """What was acknowledged: retention.ms by topic."""
        self.errors: list[tuple[str, int]] = []
        self.crash: BaseException | None = None

    def run(self) -> None:
        """Go on until `end`."""
        try:
            with FramePeer(self._port) as peer:
                peer.socket.settimeout(ANSWER_LIMIT_S)
                if self._user is not None:
                    peer.login(self._user)
                number = 0
                while not self._enough.is_set():
                    number += 1
                    self._one(peer, f"loss-{number}", str(number))
        except BaseException as e:  # noqa: BLE001 - told by `end`
            self.crash = e

    def _one(self, peer: FramePeer, name: str, value: str) -> None:
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        made = peer.call(
            build(K.CREATE_TOPICS, topics=[topic, {**topic, "name": name + "-b"}], timeout_ms=ANSWER_LIMIT_S * 1000)
        )
        change = {"name": "retention.ms", "value": value, "config_operation": 0}
        resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
        changed = peer.call(build(K.INCREMENTAL_ALTER_CONFIGS, resources=[resource]))
        self.errors += [(name, code) for code in (*error_codes(made), *error_codes(changed)) if code]
        self.done[name] = value

    def reach(self, count: int) -> None:
        """Wait until so many are done."""
        end = time.monotonic() + 240
        while len(self.done) < count:
            assert self.crash is None, repr(self.crash)
            assert time.monotonic() < end, f"{len(self.done)} of {count}"
            time.sleep(0.01)

    def end(self) -> None:
        """Stop; fails for whatever went wrong."""
        self._enough.set()
        self.join(240)
        assert self.crash is None, repr(self.crash)
        assert not self.errors


@pytest.mark.requirement("F-24", "F-22", "F-04", "F-05", "H-01")
def test_controllers_come_and_go_and_no_client_notices(tmp_path: Path) -> None:
    with InProcess(tmp_path, brokers=(1,)) as cluster:
        cluster.active()
        admin = Admin(cluster.ports[1], "root")
        admin.start()
        for _ in range(4):
            admin.reach(len(admin.done) + 3)
            active = cluster.active()
            done = dict(admin.done)
            cluster.stop_node(active)
            successor = cluster.active()
            _check_kept(cluster, successor, done)
            cluster.start_node(active)
        admin.reach(len(admin.done) + 3)
        admin.end()
        _check_kept(cluster, cluster.active(), admin.done)


def _check_kept(cluster: InProcess, node_id: int, done: dict[str, str]) -> None:
    from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType

    image = cluster.nodes[node_id].image()
    for name, value in done.items():
        assert name in image.topics.by_name
        assert name + "-b" in image.topics.by_name
        assert dict(image.configs.get(ConfigResource(ConfigResourceType.TOPIC, name))) == {"retention.ms": value}
    whole = {n.removesuffix("-b") for n in image.topics.by_name}
    assert all(n + "-b" in image.topics.by_name for n in whole), "half of a request is there"


@pytest.mark.crash
@pytest.mark.cluster
@pytest.mark.requirement("F-24", "F-04", "F-05", "H-01", "H-05", "H-09")
def test_killed_and_paused_controllers_and_cut_answers(tmp_path: Path) -> None:
    patient = {"request.timeout.ms": str(ANSWER_LIMIT_S * 1000)}
    with ProcessCluster(
        tmp_path, controllers=3, brokers=1, plaintext=True, proxied=True, properties=patient
    ) as cluster:
        port = int(cluster.node(1).bootstrap.rpartition(":")[2])
        quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}

        def active() -> int:
            with FramePeer(port) as peer:
                peer.socket.settimeout(ANSWER_LIMIT_S)
                found: int = peer.call(build(K.DESCRIBE_QUORUM, **quorum)).topics[0].partitions[0].leader_id
            return found

        topic = {"num_partitions": 1, "replication_factor": 1}
        cuts = [cluster.network.cut(1, node.node_id, api_key=K.ENVELOPE) for node in cluster.controllers]
        with FramePeer(port) as peer:
            peer.socket.settimeout(ANSWER_LIMIT_S)
            for number in range(2):
                made = peer.call(
                    build(
                        K.CREATE_TOPICS, topics=[{"name": f"cut-{number}", **topic}], timeout_ms=ANSWER_LIMIT_S * 1000
                    )
                )
                assert [t.error_code for t in made.topics] == [0]
            assert any(cut.done for cut in cuts)
            again = peer.call(
                build(K.CREATE_TOPICS, topics=[{"name": "cut-0", **topic}], timeout_ms=ANSWER_LIMIT_S * 1000)
            )
            assert [t.error_code for t in again.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
        admin = Admin(port, None)
        admin.start()
        for way in ("kill", "pause", "kill"):
            admin.reach(len(admin.done) + 2)
            node = cluster.node(active())
            node.kill() if way == "kill" else node.pause()
            admin.reach(len(admin.done) + 2)
            node.restart() if way == "kill" else node.resume()
        admin.reach(len(admin.done) + 2)
        admin.end()
        made = {*admin.done, *(name + "-b" for name in admin.done)}

        def unknown() -> set[str]:
            with FramePeer(port) as peer:
                return made - {t.name for t in peer.call(build(K.METADATA, topics=None)).topics}

        cluster.wait_for(unknown, lambda names: not names, "the broker knows of all topics")
