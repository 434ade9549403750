"""The tree of the metadata shell: everything has a path, and no secret shows unless it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.tree import Tree, TreeSource, find, tree
from barnabas.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.model.uuid import Uuid
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.delegation_token_record import DelegationTokenRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord
from tests.core.metadata.clusters import a_cluster, a_partition, with_topic
from tests.core.metadata.metadata_records import logs


def nodes(node: Tree) -> Iterator[Tree]:
    yield node
    if not isinstance(node, str):
        for child in node.values():
            yield from nodes(child)


def an_image() -> MetadataImage:
    image = with_topic(a_cluster(1), "orders", a_partition([1]))
    quota = [EntityData(entity_type="client-id", entity_name="a(b"), EntityData(entity_type="user", entity_name=None)]
    for record in (
        ConfigRecord(resource_type=4, resource_name="", name="k", value="v"),
        ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="secret"),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
        UserScramCredentialRecord(name="alice", mechanism=2, salt=b"secret", stored_key=b"secret", iterations=4096),
        ClientQuotaRecord(entity=quota, key="producer_byte_rate", value=2e7),
        AccessControlEntryRecord(
            id=Uuid(b"\x07" * 16),
            resource_type=ResourceType.TOPIC,
            resource_name="orders",
            pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=AclOperation.READ,
            permission_type=AclPermissionType.ALLOW,
        ),
    ):
        image = replay_one(image, record)
    return image


def hide_passwords(_: object, key: str) -> bool:
    return "password" in key


def test_paths_lead_to_values() -> None:
    root = tree(TreeSource(an_image(), time_ms=1_700_000_000_120, is_secret=hide_passwords))
    partition = find(root, "/image/topics/byName/orders/0")
    assert isinstance(partition, str)
    assert partition.startswith("PartitionRegistration(replicas=[1], directories=[")
    assert "isr=[1], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=1, " in partition
    topic_id = find(root, "/image/topics/byName/orders/id")
    assert find(root, f"/image/topics/byId/{topic_id}/name") == "orders"
    assert find(root, "image/features/metadataVersion") == "Optional[4.3-IV0]"
    assert find(root, "/image/configs/BROKER") == {"k": "v", "ssl.key.password": "[redacted]"}
    assert find(root, "/image/configs/TOPIC:orders/retention.ms") == "1"
    hidden = "salt=[redacted], storedKey=[redacted], serverKey=[redacted], iterations=[redacted]"
    assert find(root, "/image/scram/SCRAM-SHA-512/alice") == f"ScramCredentialData({hidden})"
    quotas = find(root, "/image/clientQuotas")
    assert quotas == {"clientId(a\\(b)_user(<default>)": {"producer_byte_rate": "2.0E7"}}
    assert str(find(root, "/image/provenance")).endswith("time 2023-11-14T22:13:20.12Z[UTC]")
    assert find(root, "/") is root
    assert find(root, "/nowhere") is None
    assert find(root, "/image/provenance/deeper") is None
    assert "secret" not in [node for node in nodes(root) if isinstance(node, str)]


def test_secrets_show_when_asked_for() -> None:
    token = DelegationTokenRecord(owner="User:alice", token_id="t", renewers=["User:bob"])
    image = replay_one(an_image(), token)
    root = tree(TreeSource(image))
    assert find(root, "/image/configs/BROKER/ssl.key.password") == "secret"
    credential = find(root, "/image/scram/SCRAM-SHA-512/alice")
    assert credential == "ScramCredentialData(salt=736563726574, storedKey=736563726574, serverKey=, iterations=4096)"
    assert "owner=User:alice" in str(find(root, "/image/delegationToken/t"))
    hidden = tree(TreeSource(image, is_secret=hide_passwords))
    assert "alice" not in str(find(hidden, "/image/delegationToken/t"))


@pytest.mark.requirement("A-29")
def test_each_acl_is_json_on_both_paths() -> None:
    root = tree(TreeSource(an_image()))
    shown = find(root, f"/acl/id/{Uuid(bytes([7]) * 16)}")
    assert isinstance(shown, str)
    acl = json.loads(shown)
    assert (acl["principal"], acl["operation"], acl["resourceName"]) == ("User:alice", 3, "orders")
    assert find(root, f"/image/acls/byId/{acl['id']}") == shown


@given(logs())
@settings(max_examples=20, deadline=None)
def test_any_metadata_is_a_tree_of_texts(log: list[Any]) -> None:
    image = MetadataImage.EMPTY
    for record in log:
        image = replay_one(image, record)
    for node in nodes(tree(TreeSource(image, is_secret=hide_passwords))):
        assert isinstance(node, str) or all(isinstance(name, str) for name in node)
