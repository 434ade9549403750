"""The tree of the metadata shell: everything has a path, and no secret shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings

from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.tree import Tree, find, tree
from barnabas.wire.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord
from tests.core.metadata.clusters import a_cluster, a_partition, with_topic
from tests.core.metadata.metadata_records import logs


def nodes(node: Tree) -> Iterator[Tree]:
    yield node
    if not isinstance(node, str):
        for child in node.values():
            yield from nodes(child)


def test_paths_lead_to_values() -> None:
    image = with_topic(a_cluster(1), "orders", a_partition([1]))
    image = replay_one(image, ConfigRecord(resource_type=4, resource_name="", name="k", value="v"))
    image = replay_one(image, ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="secret"))
    image = replay_one(
        image,
        UserScramCredentialRecord(name="alice", mechanism=2, salt=b"secret", stored_key=b"secret", iterations=4096),
    )
    quota = [EntityData(entity_type="client-id", entity_name="a/b"), EntityData(entity_type="user", entity_name=None)]
    image = replay_one(image, ClientQuotaRecord(entity=quota, key="producer_byte_rate", value=5.0))
    root = tree(image, lambda _, key: "password" in key)
    assert find(root, "/topics/byName/orders/0/leader") == "1"
    assert find(root, "/topics/byName/orders/0/isr") == "[1]"
    assert find(root, "features/finalizedVersions/metadata.version") == "4.3-IV0"
    assert find(root, "/cluster/brokers/1/fenced") == "False"
    assert find(root, "/configs/BROKER/(default)") == {"k": "v", "ssl.key.password": "[hidden]"}
    assert find(root, "/scram/SCRAM-SHA-512/alice") == "[hidden]"
    assert find(root, "/clientQuotas/client-id(a\\/b),user()") is None
    quotas = find(root, "/clientQuotas")
    assert quotas == {"client-id(a\\/b),user()": {"producer_byte_rate": "5.0"}}
    assert find(root, "/") is root
    assert find(root, "/nowhere") is None
    assert find(root, "/provenance/deeper") is None
    assert "secret" not in repr(root)


@given(logs())
@settings(max_examples=20, deadline=None)
def test_any_metadata_is_a_tree_of_texts(log: list[Any]) -> None:
    image = MetadataImage.EMPTY
    for record in log:
        image = replay_one(image, record)
    for node in nodes(tree(image, lambda *_: False)):
        assert isinstance(node, str) or all(isinstance(name, str) for name in node)
