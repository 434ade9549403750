"""What waits at a controller when that one has to resign: its broker asks the next one, and no client hears of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from barnabas.server.config import AUTHORIZERS
from barnabas.testing.local import LocalNode
from barnabas.testing.plugin import MakeCluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.server.frames import FramePeer
from tests.server.requests import build, error_codes

pytestmark = pytest.mark.slow
K = ApiKey
ANSWER_LIMIT_S: Final = 90
SETTINGS: Final = {
    "authorizer.class.name": AUTHORIZERS[1],
    "super.users": "User:ANONYMOUS",
    "controller.quorum.fetch.timeout.ms": "3000",  # a leader that hears of nobody for half as long again resigns
}
RULE: Final = {"resource_type": 2, "resource_name": "r", "operation": 3, "permission_type": 3, "principal": "User:x"}
QUOTA: Final = {
    "entity": [{"entity_type": "client-id", "entity_name": "c"}],
    "ops": [{"key": "request_percentage", "value": 50.0}],
}
USER: Final = {"name": "u", "mechanism": 2, "iterations": 4096, "salt": b"s" * 16, "salted_password": b"p" * 64}
BROKER: Final = {
    "resource_type": 4,
    "resource_name": "",
    "configs": [{"name": "log.retention.ms", "value": "7200000", "config_operation": 0}],
}


def topic(name: str) -> Any:
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return build(K.CREATE_TOPICS, topics=[wanted], timeout_ms=30_000)


@pytest.mark.requirement("F-22")
def test_requests_that_wait_at_a_controller_that_resigns(barnabas_clusters: MakeCluster) -> None:
    cluster = barnabas_clusters(controllers=3, brokers=1, plaintext=True, proxied=True, properties=SETTINGS)
    port = int(cluster.bootstrap.rpartition(":")[2])
    # More than the broker sends at once: some wait at the controller, some at the broker.
    requests = [
        *(topic(f"first-{n}") for n in range(2)),
        build(K.CREATE_ACLS, creations=[RULE]),
        build(K.ALTER_CLIENT_QUOTAS, entries=[QUOTA]),
        build(K.ALTER_USER_SCRAM_CREDENTIALS, upsertions=[USER]),
        build(K.INCREMENTAL_ALTER_CONFIGS, resources=[BROKER]),
        *(topic(f"later-{n}") for n in range(3)),
    ]

    def ask(request: Any) -> Any:
        with FramePeer(port) as peer:
            peer.socket.settimeout(ANSWER_LIMIT_S)
            return peer.call(request)

    old = cluster.active_controller()
    assert isinstance(old, LocalNode)
    others = [node.node_id for node in cluster.controllers if node is not old]
    with ThreadPoolExecutor(len(requests)) as threads:
        cluster.network.partition(old.node_id, others)
        try:
            outcomes = [set(error_codes(answer)) for answer in threads.map(ask, requests)]
        finally:
            cluster.network.heal()
    assert all(codes <= {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT} for codes in outcomes), outcomes
    refused = "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Envelope,error=NOT_CONTROLLER"
    ((_, count),) = old.node.metrics.registry.values(refused)
    assert float(count["Count"]) > 0  # so it did say so: to the broker

    active = cluster.active_controller()
    assert isinstance(active, LocalNode)
    done = {r.topics[0].name for r, codes in zip(requests, outcomes, strict=True) if r.API_KEY == 19 and codes == {0}}
    assert done <= set(active.node.controller.image.topics.by_name)
