"""The ACLs of our snapshots as Apache Kafka reads them: its tool, and its controller that starts from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.core.metadata.acl_changes import AclSearch, create_acls, delete_acls
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
from barnabas.server.format import random_uuid
from tests.peers.kafka import RealKafka
from tests.peers.test_acl_records import OUR_LEVELS, records_of
from tests.peers.tools import DUMP_LOG_SEGMENTS, ToolRunner
from tests.server.controllers import running

pytestmark = pytest.mark.peer
LIVE, GONE = 40, 15


def binding(n: int) -> AclBinding:
    pattern_type = PatternType.PREFIXED if n % 3 == 0 else PatternType.LITERAL
    permission = AclPermissionType.DENY if n % 5 == 0 else AclPermissionType.ALLOW
    pattern = ResourcePattern(ResourceType.TOPIC, f"t{n}", pattern_type)
    return AclBinding(pattern, f"User:u{n % 7}", "*", AclOperation.READ, permission)


@pytest.mark.requirement("A-19")
async def test_a_real_controller_starts_from_our_snapshot(tmp_path: Path, java_tools: ToolRunner) -> None:
    kafka = RealKafka(tmp_path, authorizer=True, format_args=OUR_LEVELS)
    with kafka:
        pass
    config = NodeConfig.load(kafka.config_file)
    rules = [binding(n) for n in range(LIVE + GONE)]
    async with running(config) as controller:
        await controller.write(lambda image: create_acls(image.acls, rules, random_uuid))
        filters = [AclBindingFilter(name=rule.pattern.name) for rule in rules[LIVE:]]
        search = AclSearch(controller.image.acls, filters)
        list(search.steps())
        await controller.write(lambda image: delete_acls(image.acls, search))
        await controller.snapshot()
        live = {str(acl_id): acl for acl_id, acl in controller.committed_image.acls.by_id.items()}
    assert len(live) == LIVE
    directory = Path(config.metadata_log_dir) / "__cluster_metadata-0"
    newest = max(directory.glob("*.checkpoint"))
    dump = java_tools.run(DUMP_LOG_SEGMENTS, "--cluster-metadata-decoder", "--files", str(newest))
    assert dump.code == 0, dump.stderr
    records = records_of(dump.stdout, "ACCESS_CONTROL_ENTRY_RECORD")
    assert {r["id"]: (r["resourceName"], r["principal"]) for r in records} == {
        acl_id: (acl.pattern.name, acl.principal) for acl_id, acl in live.items()
    }
    assert len(records) == LIVE
    assert records_of(dump.stdout, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD") == []
    for segment in directory.glob("*.log"):  # what the snapshot covers shall come from it alone
        if not segment.stem.strip("0"):
            segment.write_bytes(b"")
    with kafka:
        async with Admin(ClientConfig.from_properties(kafka.client_properties("PLAINTEXT"))) as admin:
            described = await admin.describe_acls(AclBindingFilter())
    assert set(described) == set(live.values())
