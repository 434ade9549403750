"""A broker on which the consumer group protocol (KIP-848) is switched off: its requests are known, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.server.frames import LOGIN, FramePeer, port_of, several_listeners
from tests.server.requests import build, error_codes

JOIN = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 1_000,
    "subscribed_topic_names": [],
    "topic_partitions": [],
}


@pytest.mark.parametrize(
    ("protocols", "code"),
    [
        ("classic", ErrorCode.UNSUPPORTED_VERSION),
        ("classic,consumer", ErrorCode.NOT_COORDINATOR),  # nobody has asked for one yet
    ],
)
def test_heartbeats_and_descriptions_need_the_protocol(tmp_path: Path, protocols: str, code: ErrorCode) -> None:
    settings = several_listeners() | {"group.coordinator.rebalance.protocols": protocols}
    with Cluster(tmp_path, settings) as cluster, FramePeer(port_of(cluster, LOGIN)) as root:
        root.login("root")
        for request in (
            build(ApiKey.CONSUMER_GROUP_HEARTBEAT, **JOIN),
            build(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["g"]),
        ):
            assert set(error_codes(root.call(request))) - {0} == {code}
