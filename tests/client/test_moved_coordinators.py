"""Questions about a group whose coordinator is not where it was last."""

from __future__ import annotations

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.groups import CommittedOffset
from barnabas.client.cluster import CoordinatorKind, Node
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports

ORDERS = TopicPartition("orders", 0)
GONE = 99


@pytest.mark.parametrize("is_listed", [True, False])
async def test_offsets_are_found_though_their_coordinator_has_just_gone(barnabas: Cluster, is_listed: bool) -> None:
    """is_listed: the cluster has not said yet that the node is gone."""
    barnabas.create_topic(ORDERS.topic)
    async with Admin(barnabas.admin.barnabas) as admin:
        kept = CommittedOffset(7, -1, "")
        assert await admin.commit_offsets("readers", {ORDERS: kept}) == {ORDERS: None}
        admin.cluster._coordinators[CoordinatorKind.GROUP, "readers"] = GONE
        if is_listed:
            (port,) = free_ports(1)
            admin.cluster.nodes[GONE] = Node(GONE, "127.0.0.1", port)
        assert await admin.group_offsets("readers") == {ORDERS: kept}
