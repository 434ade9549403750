"""Kafka's own DumpLogSegments reads every file that storage writes, and finds nothing to complain about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.log import Log
from barnabas.storage.log_dirs import LogDirs
from barnabas.storage.log_validator import AppendOrigin
from barnabas.storage.meta_properties import MetaProperties, write_meta_properties
from barnabas.wire.coordinator_records import encode_coordinator_key, encode_coordinator_value
from barnabas.wire.message import Message
from barnabas.wire.record_batch import Compression
from barnabas.wire.records.group_metadata_key import GroupMetadataKey
from barnabas.wire.records.group_metadata_value import GroupMetadataValue
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from barnabas.wire.records.transaction_log_value import TransactionLogValue
from tests.peers.tools import DUMP_LOG_SEGMENTS, run_tool_result
from tests.storage.logs import NOW_MS, ManualClock, batch, log_config, marker

pytestmark = pytest.mark.peer

TOPIC_ID = Uuid(bytes(15) + b"\x71")
SMALL = {"segment.bytes": "20000", "index.interval.bytes": "500"}


@dataclass
class Node:
    """A data directory with one log in it."""

    directory: Path
    config: dict[str, str]
    topic: str = "t"
    clock: ManualClock = field(default_factory=ManualClock)

    def open(self) -> tuple[LogDirs, Log]:
        self.directory.mkdir(exist_ok=True)
        properties = MetaProperties("c", 1, Uuid(bytes(15) + b"\x72"))
        write_meta_properties(self.directory, properties, OsFileSystem())
        config = log_config(self.config)
        dirs = LogDirs([self.directory], self.clock, topic_config=lambda topic: config)
        dirs.acquire()
        dirs.load()
        return dirs, dirs.get_or_create(TopicPartition(self.topic, 0), TOPIC_ID, config)


def complaints(stderr: str, *, gaps: bool) -> list[str]:
    """Give what the tool complains of. gaps: offsets may be missing, as they are after compaction.

    4.3.1 calls the first record of every segment but offset 0's non-consecutive ("-1 is followed by 95").
    """
    lines = stderr.splitlines()
    if gaps:
        return [
            x
            for x in lines
            if not x.startswith("Non-consecutive") and not re.fullmatch(r"  -?\d+ is followed by \d+", x)
        ]
    found: list[str] = []
    for line in lines:
        first = re.fullmatch(r"  -1 is followed by (\d+)", line)
        if first is not None and found and found[-1].endswith(f"{int(first[1]):020d}.log"):
            found.pop()
        else:
            found.append(line)
    return found


def dump(files: Sequence[Path], *args: str, gaps: bool = False) -> str:
    """Dump files; the tool must not complain about any of them."""
    result = run_tool_result(DUMP_LOG_SEGMENTS, "--files", ",".join(map(str, files)), *args)
    assert (result.code, complaints(result.stderr, gaps=gaps)) == (0, [])
    assert "invalid bytes at the end" not in result.stdout
    assert "isvalid: false" not in result.stdout
    return result.stdout


def dump_everything(log_dir: Path, *, gaps: bool = False) -> str:
    """Dump all the files of a partition in every way that applies."""
    files = sorted(
        f for f in log_dir.iterdir() if f.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    )
    out = dump(files, "--deep-iteration", "--print-data-log", gaps=gaps)
    indexes = [f for f in files if f.suffix in (".index", ".timeindex")]
    assert "passed sanity check" in dump(indexes, "--index-sanity-check")
    dump(indexes, "--verify-index-only")
    return out


def offsets(out: str) -> list[int]:
    return [int(n) for n in re.findall(r"^\| offset: (\d+)", out, re.MULTILINE)]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_rolled_and_indexed(tmp_path: Path, codec: Compression) -> None:
    rng = Random(1)
    dirs, log = Node(tmp_path / "data", SMALL).open()
    for n in range(150):
        values = [rng.randbytes(100) + b"value %d %d " % (n, r) * 8 for r in range(3)]
        log.append_as_leader(batch(*values, timestamp=NOW_MS + 10 * n, compression=codec), n // 50)
    assert len(log.segments) > 1
    dirs.close()
    out = dump_everything(log.dir)
    assert sorted(offsets(out)) == list(range(450))
    assert f"compresscodec: {codec.name.lower()}" in out
    assert "partitionLeaderEpoch: 2" in out


@pytest.mark.parametrize("clean", [True, False])
def test_live_and_killed_directories(tmp_path: Path, clean: bool) -> None:
    dirs, log = Node(tmp_path / "data", SMALL).open()
    for n in range(100):
        log.append_as_leader(batch(b"x" * 700, timestamp=NOW_MS + n), 0)
    dump([s.path(".log") for s in log.segments], "--deep-iteration")
    dirs.close(clean=clean)
    reopened, log = Node(tmp_path / "data", SMALL).open()
    log.append_as_leader(batch(b"more"), 1)
    reopened.close()
    assert sorted(offsets(dump_everything(log.dir))) == list(range(101))


def test_recompressed_and_stamped_batches(tmp_path: Path) -> None:
    config = {**SMALL, "compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    node = Node(tmp_path / "data", config)
    dirs, log = node.open()
    for n, codec in enumerate(list(Compression) * 4):
        node.clock.ms += 1
        log.append_as_leader(batch(b"a%d" % n, b"b" * 300, timestamp=5, compression=codec), 0)
    dirs.close()
    out = dump_everything(log.dir)
    assert "LogAppendTime" in out
    assert set(re.findall(r"compresscodec: (\w+)", out)) == {"zstd"}


def test_idempotent_and_transactional_records(tmp_path: Path) -> None:
    dirs, log = Node(tmp_path / "data", SMALL).open()
    for n in range(60):
        log.append_as_leader(batch(b"i" * 500, producer=(7, 0, n)), 0)
        log.append_as_leader(batch(b"t" * 300, producer=(8, 1, n), transactional=True), 0)
        if n % 3 == 2:
            log.append_as_leader(marker(8, 1, commit=n % 2 == 0), 0, origin=AppendOrigin.COORDINATOR)
    assert len(log.segments) > 2
    dirs.close()
    out = dump_everything(log.dir)
    assert sorted(offsets(out)) == list(range(140))
    assert "endTxnMarker: ABORT" in out
    assert "endTxnMarker: COMMIT" in out
    assert re.search(r"version: 0 producerId: 8 firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+", out)
    snapshot = next(iter(sorted(log.dir.glob("*.snapshot"), reverse=True)))
    rows = re.findall(r"producerId: (\d+) producerEpoch: (\d+).*lastSequence: (\d+)", dump([snapshot]))
    assert sorted(rows) == [("7", "0", "59"), ("8", "1", "59")]


def test_compacted_logs(tmp_path: Path) -> None:
    config = {"segment.bytes": "4000", "cleanup.policy": "compact", "delete.retention.ms": "1000"}
    node = Node(tmp_path / "data", config)
    dirs, log = node.open()
    for n in range(200):
        pair = (b"key-%d" % (n % 7), None if n % 40 == 39 else b"v%d " % n * 40)
        codec = Compression.LZ4 if n % 2 else Compression.NONE
        log.append_as_leader(batch(pair, (b"other", b"o%d" % n), timestamp=NOW_MS + n, compression=codec), 0)
        if n % 10 == 0:
            log.append_as_leader(batch((b"t", b"%d" % n), producer=(9, 0, n // 10), transactional=True), 0)
            log.append_as_leader(marker(9, 0, commit=n % 20 == 0), 0, origin=AppendOrigin.COORDINATOR)
        if n % 70 == 69:
            log.update_high_watermark(log.log_end_offset)
            assert dirs.clean_pass()
            node.clock.ms += 2000
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    assert dirs.clean_pass()
    dirs.close()
    out = dump_everything(log.dir, gaps=True)
    assert "deleteHorizonMs: OptionalLong[1" in out
    assert 5 < len(offsets(out)) < 100


def coordinator_batch(*records: tuple[Message, Message, int]) -> memoryview:
    return batch(*((encode_coordinator_key(k), encode_coordinator_value(v, version)) for k, v, version in records))


def test_offsets_decoder(tmp_path: Path) -> None:
    dirs, log = Node(tmp_path / "data", {"cleanup.policy": "compact"}, "__consumer_offsets").open()
    group = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[])
    commit = OffsetCommitValue(offset=42, metadata="hello", commit_timestamp=NOW_MS)
    log.append_as_leader(
        coordinator_batch(
            (GroupMetadataKey(group="g"), group, 3), (OffsetCommitKey(group="g", topic="t", partition=1), commit, 3)
        ),
        0,
        origin=AppendOrigin.COORDINATOR,
    )
    dirs.close()
    out = dump([log.segments.active.path(".log")], "--offsets-decoder")
    assert '"group":"g","topic":"t","partition":1' in out
    assert '"offset":42' in out
    assert '"generation":3' in out


def test_transaction_log_decoder(tmp_path: Path) -> None:
    dirs, log = Node(tmp_path / "data", {"cleanup.policy": "compact"}, "__transaction_state").open()
    value = TransactionLogValue(producer_id=4, producer_epoch=1, transaction_timeout_ms=60000, transaction_status=0)
    log.append_as_leader(
        coordinator_batch((TransactionLogKey(transactional_id="tx"), value, 0)), 0, origin=AppendOrigin.COORDINATOR
    )
    dirs.close()
    out = dump([log.segments.active.path(".log")], "--transaction-log-decoder")
    assert '"transactionalId":"tx"' in out
    assert '"producerId":4' in out
