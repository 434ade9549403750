"""What every version since 0.1.0 has left on disk is still read: each file says what it said when it was written.

The samples are `make samples`'s; a new version adds a directory, and none is ever changed.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tools import write_samples as written

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.client.producer import Producer
from barnabas.core.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage, snapshot_records
from barnabas.core.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.replicated import VersionedRecord
from barnabas.model.features import LATEST_METADATA_VERSION
from barnabas.model.topic_partition import OffsetAndEpoch, TopicPartition
from barnabas.model.uuid import ZERO_UUID
from barnabas.net.clock import SystemClock
from barnabas.server.format import BOOTSTRAP_FILE
from barnabas.server.metadata_replica import decoded
from barnabas.server.raft.metadata_log import read_batches, read_snapshot_batches
from barnabas.storage import checkpoint
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir
from barnabas.storage.log_loader import open_log
from barnabas.storage.meta_properties import read_meta_properties
from barnabas.storage.producer_snapshot import decode as decode_producers
from barnabas.storage.quorum_state import read_quorum_state
from barnabas.storage.snapshots import list_snapshots, snapshot_path
from barnabas.testing.processes import ProcessCluster
from barnabas.wire.coordinator_records import CoordinatorRecord, decode_group_record
from tests.storage.logs import read_all

HERE = Path(__file__).resolve().parent
SAMPLES = [version / kind for version in sorted(HERE.iterdir()) if version.is_dir() for kind in written.KINDS
           if (version / kind).is_dir()]  # fmt: skip
FS = OsFileSystem()
TOPICS = {"__consumer_offsets", written.ORDERS, written.LAST}


@pytest.fixture(params=SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a copy of a sample, as a node's log directory; its parent's name is the kind of quorum."""
    source: Path = request.param
    return shutil.copytree(source, tmp_path / source.name)


def opened(sample: Path, name: str, *, clean: bool = True) -> Log:
    directory = LogDir(sample, FS)
    directory.read_checkpoints()
    topic, _, number = name.rpartition("-")
    tp = TopicPartition(topic, int(number))
    starts = checkpoint.read_offsets(FS, sample / checkpoint.LOG_START)
    recovery = checkpoint.read_offsets(FS, sample / checkpoint.RECOVERY_POINT)
    return open_log(
        LogEnvironment(FS, SystemClock()),
        sample / name,
        tp,
        LogConfig.of({"retention.ms": "-1"}),
        clean=clean,
        recovery_point=recovery.get(tp, 0) if clean else 0,
        log_start_offset=starts.get(tp, 0),
    )


def image_of(sample: Path, snapshot: OffsetAndEpoch | None) -> MetadataImage:
    """Give the metadata from a snapshot (or from nothing) and what the log says after it."""
    directory = sample / "__cluster_metadata-0"
    loader = MetadataLoader()
    end = 0
    if snapshot is not None:
        data = snapshot_path(directory, snapshot).read_bytes()
        records = [record for batch in read_snapshot_batches(data) for record in decoded(batch)]
        loader.load_snapshot(records, OffsetAndEpoch(snapshot.offset - 1, snapshot.epoch))
        end = snapshot.offset
    for segment in sorted(directory.glob("*.log")):
        loader.load(
            CommittedBatch(batch.base_offset, batch.end_offset - 1, batch.epoch, list(decoded(batch)))
            for batch in read_batches(segment.read_bytes())
            if batch.base_offset >= end
        )
    return loader.image


def test_there_is_a_sample() -> None:
    assert SAMPLES


def test_the_directory_says_whose_it_is(sample: Path) -> None:
    properties = read_meta_properties(sample, FS)
    assert properties is not None
    assert properties.node_id == written.NODE_ID
    assert properties.directory_id not in (None, ZERO_UUID)
    directory = LogDir(sample, FS)
    directory.take_clean_marker()
    assert directory.was_clean


def test_the_quorum_state_says_who_was_elected(sample: Path) -> None:
    state = read_quorum_state(sample / "__cluster_metadata-0", FS)
    assert state is not None
    assert (state.leader_id, state.leader_epoch) == (written.NODE_ID, 1)
    assert [v.voter_id for v in state.current_voters or ()] == ([written.NODE_ID] if sample.name == "static" else [])


def test_the_metadata_is_whole_from_every_snapshot_and_from_the_log_alone(sample: Path) -> None:
    directory = sample / "__cluster_metadata-0"
    snapshots = [found for found in list_snapshots(directory, FS) if found.offset > 0]
    assert snapshots
    whole = image_of(sample, None)
    for snapshot in snapshots:
        assert list(snapshot_records(image_of(sample, snapshot))) == list(snapshot_records(whole))
    assert set(whole.topics.by_name) == TOPICS
    orders = whole.topics.by_name[written.ORDERS]
    assert {p.replicas for p in orders.partitions.values()} == {(written.NODE_ID,)}
    assert sorted(orders.partitions) == [0, 1]
    assert whole.features.metadata_version is not None
    assert whole.features.metadata_version <= LATEST_METADATA_VERSION
    topic = ConfigResource(ConfigResourceType.TOPIC, written.ORDERS)
    assert dict(whole.configs.get(topic)) == {"retention.ms": written.RETENTION_MS}
    assert whole.configs.get(CLUSTER_DEFAULT)["log.retention.ms"] == written.RETENTION_MS
    assert list(whole.acls.by_id.values()) == [written.ACL]
    assert written.USER in whole.scram.by_mechanism[ScramMechanism.SCRAM_SHA_256]
    [(entity, quotas)] = whole.client_quotas.by_entity.items()
    assert [(part.type, part.name) for part in entity] == [("user", written.USER)]
    assert dict(quotas) == {"producer_byte_rate": written.QUOTA}
    assert whole.producer_ids.next_producer_id == 1000


def test_the_bootstrap_says_which_levels_the_cluster_began_with(sample: Path) -> None:
    batches = read_snapshot_batches((sample / BOOTSTRAP_FILE).read_bytes())
    records: list[VersionedRecord] = [record for batch in batches for record in decoded(batch)]
    levels = {r.record.name: r.record.feature_level for r in records if hasattr(r.record, "feature_level")}
    assert levels["metadata.version"] <= LATEST_METADATA_VERSION


@pytest.mark.parametrize("clean", [True, False])
def test_records_are_read_with_and_without_recovery(sample: Path, clean: bool) -> None:
    for partition, start in ((0, written.DELETED), (1, 0)):
        log = opened(sample, f"{written.ORDERS}-{partition}", clean=clean)
        records = read_all(log)
        assert [r.offset for r in records] == list(range(start, written.RECORDS))
        assert [r.value for r in records] == [written.value_of(partition, n) for n in range(start, written.RECORDS)]
        assert [r.timestamp for r in records] == [written.TIMESTAMP + n for n in range(start, written.RECORDS)]
        found = log.offset_for_timestamp(written.TIMESTAMP + 20)
        assert found is not None
        assert found.offset == 20
        log.close()


def test_the_producer_is_remembered(sample: Path) -> None:
    for partition in range(2):
        path = sample / f"{written.ORDERS}-{partition}" / f"{written.RECORDS:020d}.snapshot"
        [producer] = decode_producers(path.read_bytes())
        assert (producer.producer_id, producer.producer_epoch) == (0, 0)
        assert producer.last_sequence == written.RECORDS - 1


def test_checkpoints_say_how_far_each_log_was(sample: Path) -> None:
    orders = [TopicPartition(written.ORDERS, n) for n in range(2)]
    assert checkpoint.read_offsets(FS, sample / checkpoint.LOG_START) == {orders[0]: written.DELETED}
    for name in (checkpoint.RECOVERY_POINT, checkpoint.HIGH_WATERMARK):
        offsets = checkpoint.read_offsets(FS, sample / name)
        assert {tp.topic for tp in offsets} == TOPICS
        assert [offsets[tp] for tp in orders] == [written.RECORDS, written.RECORDS]
    assert checkpoint.read_epochs(FS, sample / str(orders[0]) / checkpoint.LEADER_EPOCHS) == [(0, written.DELETED)]


def test_a_groups_offset_is_in_the_offsets_topic(sample: Path) -> None:
    log = opened(sample, "__consumer_offsets-0")
    [record] = read_all(log)
    assert record.key is not None
    found = decode_group_record(record.key, record.value)
    assert isinstance(found, CoordinatorRecord)
    key, value = vars_of(found.key), vars_of(found.value)
    assert (key["group"], key["topic"], key["partition"]) == (written.GROUP, written.ORDERS, 1)
    assert (value["offset"], value["metadata"]) == (written.COMMITTED, "by hand")
    log.close()


def vars_of(message: object) -> dict[str, object]:
    return {name: getattr(message, name) for name in getattr(message, "__slots__", ()) or vars(message)}


@pytest.mark.slow
def test_a_node_goes_on_with_it(sample: Path, tmp_path: Path) -> None:
    properties = read_meta_properties(sample, FS)
    assert properties is not None
    dynamic = sample.name == "dynamic"
    folder = tmp_path / "cluster"
    cluster = ProcessCluster(folder, combined=1, plaintext=True, dynamic=dynamic, properties=written.PROPERTIES)
    node = cluster.node(written.NODE_ID)
    shutil.rmtree(node.files.data)
    shutil.copytree(sample, node.files.data)
    try:
        cluster.start()
        asyncio.run(_used(ClientConfig.from_properties({"bootstrap.servers": node.bootstrap})))
        cluster.stop()
        assert "error" not in node.whole_log().lower().replace("error=none", "")
    finally:
        cluster.close()


async def _used(config: ClientConfig) -> None:
    places = [TopicPartition(written.ORDERS, n) for n in range(2)]
    async with Admin(config) as admin, Producer(config) as producer, PartitionFetcher(config) as fetcher:
        assert set(await admin.topics()) == TOPICS
        [committed] = (await admin.group_offsets(written.GROUP)).values()
        assert committed.offset == written.COMMITTED
        for place in places:
            await producer.send(place.topic, b"new", partition=place.partition)
        await producer.flush()
        fetcher.assign(await fetcher.start_offsets(places, "earliest"))
        values: dict[int, list[bytes | None]] = {0: [], 1: []}
        while any(value[-1:] != [b"new"] for value in values.values()):
            for batches in await fetcher.fetch(1000):
                columns = batches.columns()
                values[batches.partition.partition] += list(columns.values)
    for partition, start in ((0, written.DELETED), (1, 0)):
        assert values[partition] == [*(written.value_of(partition, n) for n in range(start, written.RECORDS)), b"new"]
