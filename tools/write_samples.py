"""Write the directories of a node as this version leaves them, so that later versions can prove that they read them.

`make samples` writes `tests/samples/<version>/static` and `dynamic` (quorums with fixed and with changing voters,
whose `quorum-state` files differ); `tests/samples/test_samples.py` says what must be found in each version's.
A version's samples are never written again: what they hold is what was released.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Final

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.groups import CommittedOffset
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.config import Password
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.processes import NodeProcess, ProcessCluster

SAMPLES: Final = Path(__file__).resolve().parent.parent / "tests" / "samples"
KINDS: Final = ("static", "dynamic")
NODE_ID: Final = 1
ORDERS: Final = "orders"
RECORDS: Final = 40
DELETED: Final = 5
"""The first records of partition 0, deleted by an administrator: the log starts there."""
TIMESTAMP: Final = 1_700_000_000_000
GROUP: Final = "billing"
COMMITTED: Final = 17
USER: Final = "alice"
ACL: Final = AclBinding(
    ResourcePattern(ResourceType.TOPIC, ORDERS, PatternType.PREFIXED),
    f"User:{USER}",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
QUOTA: Final = 1_000_000.0
RETENTION_MS: Final = "31536000000000"
LAST: Final = "made-last"
"""A topic made when a snapshot of the metadata was on disk already."""
PROPERTIES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "log.index.size.max.bytes": "4096",
    "log.index.interval.bytes": "64",
    "log.segment.bytes": "1048576",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "metadata.max.idle.interval.ms": "0",
}
PATIENCE_S: Final = 60


def value_of(partition: int, n: int) -> bytes:
    """Give the value of the n-th record that a partition of `orders` was sent."""
    return f"order {partition}/{n} ".encode() * 3


def write(target: Path, *, dynamic: bool) -> None:
    """Run a node, have it keep something of everything, stop it, and copy its directory to `target`."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = ProcessCluster(Path(folder), combined=1, plaintext=True, dynamic=dynamic, properties=PROPERTIES)
        node = cluster.node(NODE_ID)
        try:
            cluster.start()
            config = ClientConfig.from_properties({"bootstrap.servers": node.bootstrap})
            asyncio.run(_fill(config))
            _wait_for_snapshot(node)
            asyncio.run(_fill_on(config))
            cluster.stop()
        finally:
            cluster.close()
        shutil.copytree(node.files.data, target)
    for passing in (".lock", "*.deleted", "*.swap", "*.tmp"):
        for path in target.rglob(passing):
            path.unlink()


async def _fill(config: ClientConfig) -> None:
    async with Admin(config) as admin, Producer(config) as producer:
        made = await admin.create_topics([NewTopic(ORDERS, 2, 1, configs={"retention.ms": RETENTION_MS})])
        assert made == {ORDERS: None}, made
        for partition in range(2):
            for n in range(RECORDS):
                await producer.send(
                    ORDERS, value_of(partition, n), key=b"%d" % n, partition=partition, timestamp=TIMESTAMP + n
                )
                if n % 10 == 9:
                    await producer.flush()  # several batches, so that the indexes have something to say
        await admin.delete_records({TopicPartition(ORDERS, 0): DELETED})
        where = TopicPartition(ORDERS, 1)
        refused = await admin.commit_offsets(GROUP, {where: CommittedOffset(COMMITTED, 0, "by hand")})
        assert refused == {where: None}, refused
        assert await admin.create_acls([ACL]) == [None]
        assert await admin.alter_scram([ScramUpsertion(USER, "SCRAM-SHA-256", Password("alice-secret"))]) == {
            USER: None
        }
        await admin.alter_quotas({"user": USER}, {"producer_byte_rate": QUOTA})
        broker = ConfigResource(ConfigResourceType.BROKER, "")
        changed = {broker: [ConfigChange("log.retention.ms", AlterConfigOp.SET, RETENTION_MS)]}
        assert set((await admin.incremental_alter_configs(changed)).values()) == {None}


async def _fill_on(config: ClientConfig) -> None:
    async with Admin(config) as admin:
        made = await admin.create_topics([NewTopic(LAST, 1, 1)])
        assert made == {LAST: None}, made


def _wait_for_snapshot(node: NodeProcess) -> None:
    directory = node.files.data / "__cluster_metadata-0"
    until = time.monotonic() + PATIENCE_S
    while not any(re.fullmatch(r"\d{20}-\d{10}\.checkpoint", p.name) and int(p.name[:20]) for p in directory.iterdir()):
        assert time.monotonic() < until, "no snapshot of the metadata came"
        time.sleep(0.05)


def main() -> int:
    """Write the samples of this version; 1 when they are there."""
    target = SAMPLES / version("barnabas")
    if target.exists():
        print(f"{target} is there: the samples of a version are written once; raise the version first", file=sys.stderr)
        return 1
    for kind in KINDS:
        write(target / kind, dynamic=kind == "dynamic")
    files = [path for path in target.rglob("*") if path.is_file()]
    print(f"wrote {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes, to {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
