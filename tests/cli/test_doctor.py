"""`barnabas doctor`."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.cli.dump_log import indexes
from barnabas.cli.dump_log.segment import mapped
from barnabas.server.handlers import BROKER, TELEMETRY
from barnabas.wire.record_batch import Record, encode_batch
from tests.cli.conftest import Barnabas
from tests.peers.kafka import RealKafka

META = "version=1\ncluster.id=QmFybmFiYXNUZXN0UGVlcg\nnode.id=1\ndirectory.id=y4rs3ZU1Tm2jWy5tx-Sj_w\n"


def batch(offset: int, epoch: int = 1) -> bytearray:
    return bytearray(encode_batch([Record(0, offset, b"k", b"v")], base_offset=offset, leader_epoch=epoch))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "meta.properties").write_text(META)
    (tmp_path / "t-0").mkdir()
    return tmp_path


def problems(barnabas: Barnabas, directory: Path, *batches: bytes | bytearray) -> str:
    (directory / "t-0" / "00000000000000000000.log").write_bytes(b"".join(batches))
    run = barnabas("doctor", "data", str(directory))
    assert run.code == (0 if "Everything fits." in run.out else 1)
    return run.out


def test_a_machine_is_looked_at(barnabas: Barnabas) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        rows = {r["what"]: r for r in barnabas("doctor", "machine", "--port", str(port), "--output", "json").json}
    assert rows["codecs"]["found"] == "gzip, snappy, lz4, zstd"
    assert rows["Java"]["ok"] is True
    kerberos = rows["Kerberos"]
    assert kerberos["ok"] or "pip install 'barnabas[kerberos]'" in kerberos["advice"]
    assert rows[f"port {port}"]["ok"] is False
    assert "codecs" in barnabas("doctor").out


def test_the_list_of_apis_is_the_one_that_serves(barnabas: Barnabas) -> None:
    rows = {r["api"]: r for r in barnabas("doctor", "apis", "--output", "json").json}
    assert sum(r["broker"] == "serves" for r in rows.values()) == len((*BROKER, *TELEMETRY))
    assert rows["CreateTopics"]["broker"] == "forwards"
    assert rows["CreateTopics"]["controller"] == "serves"
    assert rows["ApiVersions"]["permission"] == "anybody"


def test_a_sound_directory_fits(barnabas: Barnabas, directory: Path) -> None:
    assert problems(barnabas, directory, batch(0), batch(1), batch(5)) == "Everything fits.\n"


def test_a_log_that_is_being_written_is_no_damage(barnabas: Barnabas, directory: Path) -> None:
    assert problems(barnabas, directory, batch(0), batch(1)[:30]) == "Everything fits.\n"


def test_what_a_node_takes_away_is_no_damage(barnabas: Barnabas, directory: Path) -> None:
    partition = directory / "t-0"
    gone = ("00000000000000000005.log", "00000000000000000005.snapshot", "00000000000000000005-0000000001.checkpoint")
    for name in gone:
        (partition / name).symlink_to(directory / "gone")  # is listed, and is not there to be read
    assert problems(barnabas, directory, batch(0)) == "Everything fits.\n"


def test_what_a_node_writes_while_its_indexes_are_checked_is_no_damage(
    barnabas: Barnabas, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = directory / "t-0"
    log, index, times = (partition / f"{0:020d}.{suffix}" for suffix in ("log", "index", "timeindex"))
    index.write_bytes(struct.pack(">ii", 1, len(batch(0))))
    times.write_bytes(struct.pack(">qi", 1, 1))
    written = iter(range(2, 9))

    @contextmanager
    def mapped_just_before_a_write(path: Path) -> Iterator[memoryview]:
        with mapped(path) as found:
            offset, position = next(written), path.stat().st_size
            for file, more in (
                (log, batch(offset)),
                (index, struct.pack(">ii", offset, position)),
                (times, struct.pack(">qi", offset, offset)),
            ):
                file.write_bytes(file.read_bytes() + more)
            yield found

    monkeypatch.setattr(indexes, "mapped", mapped_just_before_a_write)
    assert problems(barnabas, directory, batch(0), batch(1)) == "Everything fits.\n"
    assert next(written) == 4, "both kinds were looked at"


def test_each_kind_of_damage_is_named(barnabas: Barnabas, directory: Path) -> None:
    flipped = batch(1)
    flipped[-1] ^= 1
    assert f"offset 1, position {len(flipped)}, has a wrong checksum" in problems(
        barnabas, directory, batch(0), flipped
    )
    assert "goes back: 2 was next" in problems(barnabas, directory, batch(1), batch(1))
    assert "has epoch 1 after 2" in problems(barnabas, directory, batch(0, 2), batch(1, 1))
    assert "magic" in problems(barnabas, directory, batch(0), b"\0" * 100)
    (directory / "t-0" / "00000000000000000000.index").write_bytes(b"\0\0\0\7\0\0\0\0")
    assert "Index offset: 7, log offset: 0" in problems(barnabas, directory, batch(0))
    (directory / "t-0" / "00000000000000000000.index").unlink()
    (directory / "t-0" / "00000000000000000001.snapshot").write_bytes(b"\0\1garbage!!!!")
    assert "00000000000000000001.snapshot" in problems(barnabas, directory, batch(0))


def test_a_directory_that_is_none_is_named(barnabas: Barnabas, tmp_path: Path) -> None:
    assert "not a directory" in barnabas("doctor", "data", str(tmp_path / "nowhere")).err
    assert "not formatted" in barnabas("doctor", "data", str(tmp_path)).out


@pytest.mark.peer
def test_what_a_real_kafka_writes_fits(barnabas: Barnabas, real_kafka: RealKafka) -> None:
    assert barnabas("doctor", "data", str(real_kafka.log_dir)).out == "Everything fits.\n"
