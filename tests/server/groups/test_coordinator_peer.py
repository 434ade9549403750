"""Our `__consumer_offsets` before Kafka's eyes, and Kafka's before ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.core.groups.config import GroupConfig
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.server.coordinators.coordinator_log import MemoryLog
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.testing.cluster import Cluster
from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    decode_group_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.wire.record_batch import assign, decode_batch, iter_headers
from barnabas.wire.records.group_metadata_value import GroupMetadataValue
from barnabas.wire.records.offset_commit_value import OffsetCommitValue
from tests.peers.kafka import RealKafka
from tests.peers.tools import CONSUMER_GROUP_COMMAND, DUMP_LOG_SEGMENTS, run_tool
from tests.server.groups.test_coordinator import World, commit_request, stable

pytestmark = pytest.mark.peer
SEGMENT = "00000000000000000000.log"


async def test_kafka_decodes_every_record_that_we_write(tmp_path: Path) -> None:
    world = World()
    groups = await world.start()
    joined = await stable(groups)
    request = commit_request(42)
    request.member_id, request.generation_id_or_member_epoch = joined.member_id, joined.generation_id
    request.topics[0].topic_id = Uuid(b"topic-id-16bytes")
    await groups.commit_offsets(request, 10)
    old = commit_request(7, group="simple")
    old.retention_time_ms = 60_000
    await groups.commit_offsets(old, 4)
    await groups.leave(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    await groups.delete_groups(["g"])
    await groups.close()
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / SEGMENT).write_bytes(b"".join(world.log().batches))
    output = run_tool(DUMP_LOG_SEGMENTS, "--offsets-decoder", "--files", str(folder / SEGMENT))
    payloads = [(at(line, "key:"), at(line, "payload:")) for line in output.splitlines() if " key: " in line]
    ours = [r for batch in world.log().batches for r in decode_batch(batch)]
    assert len(payloads) == len(ours)
    assert [key["data"]["group"] for key, _ in payloads] == ["g", "g", "g", "simple", "g", "g", "g"]
    assert [None if value is None else value["version"] for _, value in payloads] == [
        "3",
        "3",
        "4",
        "1",
        "3",
        None,
        None,
    ]
    generation = payloads[1][1]
    assert generation is not None
    assert (generation["data"]["protocol"], generation["data"]["leader"]) == ("range", joined.member_id)
    assert generation["data"]["members"][0]["clientHost"] == "/10.0.0.1"
    committed = payloads[2][1]
    assert committed is not None
    assert (committed["data"]["offset"], committed["data"]["metadata"]) == (42, "")
    assert committed["data"]["topicId"] == str(Uuid(b"topic-id-16bytes"))


def at(line: str, label: str) -> Any:
    """Give the JSON behind a label, None where the tool says that there is none."""
    text = line.partition(f" {label} ")[2]
    return json.JSONDecoder().raw_decode(text)[0] if text.startswith("{") else None


async def test_we_take_over_what_kafka_wrote(real_kafka: RealKafka) -> None:
    group, topic = "taken-over", "taken-over-topic"
    member, described = with_a_live_group(real_kafka, group, topic)
    try:
        logs = kafka_logs(real_kafka.log_dir)
        assert sum(checked_bytes(log) for log in logs.values()) >= 3
        groups = coordinator(logs)
        for partition in logs:
            await groups.elected(partition)
        (ours,) = groups.describe([group], 5)
        assert (ours.group_state, ours.protocol_type, ours.protocol_data) == ("Stable", "consumer", "range")
        theirs = described.members[0]
        assert [(m.member_id, m.client_id, m.client_host) for m in ours.members] == [
            (theirs.member_id, theirs.client_id, theirs.host)
        ]
        fetched = await groups.fetch_offsets(OffsetFetchRequestGroup(group_id=group, topics=None), require_stable=True)
        committed = {p.partition_index: p.committed_offset for t in fetched.topics for p in t.partitions}
        assert committed == {0: 2}
        await groups.close()
    finally:
        member.close()


def test_kafka_takes_over_what_we_wrote(tmp_path: Path) -> None:
    with Cluster(tmp_path / "node") as ours:
        ours.create_topic("moved", 1)
        consumer = Consumer({**ours.admin.librdkafka, "group.id": "moved-group"})
        consumer.commit(offsets=[TopicPartition("moved", 0, 42, metadata="note")], asynchronous=False)
        consumer.close()
    kafka = RealKafka(tmp_path / "kafka")
    shutil.copytree(ours.files.directory / "data", kafka.log_dir, ignore=shutil.ignore_patterns(".lock"))
    with kafka:
        args = ("--bootstrap-server", kafka.bootstrap(), "--describe", "--group", "moved-group", "--offsets")
        described = run_tool(CONSUMER_GROUP_COMMAND, *args)
    (row,) = [line.split() for line in described.splitlines() if line.startswith("moved-group")]
    assert row[:4] == ["moved-group", "moved", "0", "42"]


def with_a_live_group(kafka: RealKafka, group: str, topic: str) -> tuple[Consumer, Any]:
    """Make a topic, read it in a group and commit; gives the consumer, still a member, and Kafka's description."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap()})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap()})
    for n in range(2):
        producer.produce(topic, str(n))
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(2, timeout=30)) == 2
    consumer.commit(asynchronous=False)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    offsets = admin.list_consumer_group_offsets([wanted])[group].result(30)
    assert [p.offset for p in offsets.topic_partitions] == [2]
    return consumer, admin.describe_consumer_groups([group])[group].result(30)


def kafka_logs(directory: Path) -> dict[int, MemoryLog]:
    """Read the partitions of `__consumer_offsets` as a real broker left them on its disk."""
    logs = {}
    for folder in sorted(directory.glob("__consumer_offsets-*")):
        log = MemoryLog()
        for segment in sorted(folder.glob("*.log")):
            data = bytearray(segment.read_bytes())
            for pos, header in iter_headers(data, partial_tail=True):
                assign(data, pos, header.base_offset, 0)
                log.batches.append(bytes(data[pos : pos + header.size]))
                log.log_end_offset = header.last_offset + 1
        log.high_watermark = log.log_end_offset
        logs[int(folder.name.rpartition("-")[2])] = log
    return logs


def checked_bytes(log: MemoryLog) -> int:
    """Decode each record and encode it again: the same bytes. Gives how many there were."""
    count = 0
    for record in records(log):
        decoded = decode_group_record(record.key, record.value)
        assert isinstance(decoded, CoordinatorRecord)
        assert encode_coordinator_key(decoded.key) == record.key
        if isinstance(decoded.value, GroupMetadataValue | OffsetCommitValue):
            assert encode_coordinator_value(decoded.value, decoded.value_version) == record.value
            count += 1
    return count


def records(log: MemoryLog) -> Iterator[Any]:
    for batch in log.batches:
        for _, header in iter_headers(batch):
            if not header.is_control:
                yield from decode_batch(batch)


def coordinator(logs: dict[int, MemoryLog]) -> GroupCoordinator:
    return GroupCoordinator(
        GroupConfig(),
        clock=SystemClock(),
        new_uuid=lambda: Uuid(b"n" * 16),
        partition_count=lambda: len(logs),
        open_log=lambda tp: logs[tp.partition],
    )
