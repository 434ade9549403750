"""What the authorizer is while a node does not know the cluster's rules yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.core.authorizer.loading import LoadingAuthorizer
from barnabas.core.replicated import VersionedRecord
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.config import AUTHORIZERS
from barnabas.server.format import random_uuid
from barnabas.server.own_metadata import OwnMetadata
from barnabas.server.publishers.acls import AclPublisher
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from tests.server.controllers import node_config


@pytest.mark.requirement("H-19")
def test_peers_that_ask_again_and_again_cost_one_reading_of_the_disk(tmp_path: Path) -> None:
    read = 0

    def on_disk() -> Iterator[VersionedRecord]:
        nonlocal read
        read += 1
        yield VersionedRecord(
            AccessControlEntryRecord(
                id=random_uuid(), resource_type=4, resource_name="kafka-cluster", pattern_type=3, principal="User:peer",
                host="*", operation=9, permission_type=3,
            ),
            0,
        )  # fmt: skip

    config = node_config(tmp_path, authorizer__class__name=AUTHORIZERS[1])
    loading = AclPublisher(config, OwnMetadata(on_disk)).authorizer
    assert isinstance(loading, LoadingAuthorizer)
    question = AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster"
    assert all(loading.authorize(KafkaPrincipal("User", "peer"), "1.2.3.4", *question).allowed for _ in range(3))
    assert read == 1
    assert loading.own_rules() is loading.own_rules(), "nor is anything indexed twice"
