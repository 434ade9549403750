"""ACLs as records of the metadata log: ours read by Kafka's own tool, Kafka's read by us (KIP-801)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.server.config import NodeConfig
from barnabas.testing.cluster import Cluster
from tests.server.controllers import running

from .eventually import eventually
from .kafka import RealKafka
from .tools import DUMP_LOG_SEGMENTS, ToolRunner

pytestmark = pytest.mark.peer

KEPT = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
GONE = AclBinding(
    ResourcePattern(ResourceType.GROUP, "team-", PatternType.PREFIXED),
    "User:bob",
    "10.0.0.7",
    AclOperation.DESCRIBE,
    AclPermissionType.DENY,
)
OUR_LEVELS = [arg for feature in ("share.version=0", "streams.version=0") for arg in ("--feature", feature)]


async def change_acls(config: ClientConfig) -> None:
    """Make both rules, the first one twice, and delete the second."""
    async with Admin(config) as admin:
        await admin.create_acls([KEPT, GONE])
        await admin.create_acls([KEPT])
        await eventually(lambda: rules(admin), {KEPT, GONE})  # a broker learns of what the controller has made
        await admin.delete_acls([AclBindingFilter(principal=GONE.principal)])
        await eventually(lambda: rules(admin), {KEPT})


async def rules(admin: Admin) -> set[AclBinding]:
    return set(await admin.describe_acls(AclBindingFilter()))


def records_of(dump: str, kind: str) -> list[dict[str, Any]]:
    """Give the data of the records of one type in the output of DumpLogSegments."""
    payloads = [json.loads(line.split("payload:", 1)[1]) for line in dump.splitlines() if "payload:" in line]
    return [p["data"] for p in payloads if p["type"] == kind]


@pytest.mark.requirement("A-08", "A-09", "A-10")
async def test_kafkas_tool_reads_our_acl_records(tmp_path: Path, java_tools: ToolRunner) -> None:
    with Cluster(tmp_path / "node") as cluster:
        await change_acls(cluster.admin.barnabas)
        directory = Path(cluster.node.config.metadata_log_dir) / "__cluster_metadata-0"
    files = ",".join(str(path) for path in directory.glob("*.log"))
    dump = java_tools.run(DUMP_LOG_SEGMENTS, "--cluster-metadata-decoder", "--files", files)
    assert dump.code == 0, dump.stderr
    made = records_of(dump.stdout, "ACCESS_CONTROL_ENTRY_RECORD")
    # Making a rule that is there already writes nothing.
    assert [{k: v for k, v in record.items() if k != "id"} for record in made] == [
        {
            "resourceType": rule.pattern.resource_type,
            "resourceName": rule.pattern.name,
            "patternType": rule.pattern.pattern_type,
            "principal": rule.principal,
            "host": rule.host,
            "operation": rule.operation,
            "permissionType": rule.permission_type,
        }
        for rule in (KEPT, GONE)
    ]
    assert len({record["id"] for record in made}) == 2
    removed = records_of(dump.stdout, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD")
    assert removed == [{"id": made[1]["id"]}]


@pytest.mark.requirement("A-08", "A-09")
async def test_we_read_the_acl_records_of_a_real_controller(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path, authorizer=True, format_args=OUR_LEVELS)
    with kafka:
        await change_acls(ClientConfig.from_properties(kafka.client_properties("PLAINTEXT")))
    async with running(NodeConfig.load(kafka.config_file)) as controller:
        assert list(controller.committed_image.acls.by_id.values()) == [KEPT]
