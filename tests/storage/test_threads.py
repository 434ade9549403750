"""Background work on other threads while one thread appends and reads: nothing is lost, nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.log_dirs import LogDirs
from barnabas.storage.meta_properties import MetaProperties, write_meta_properties
from barnabas.wire.record_batch import iter_headers

from .logs import ManualClock, batch, log_config, read_all

PLAIN, COMPACTED = TopicPartition("plain", 0), TopicPartition("compacted", 0)
CONFIGS = {
    "plain": {"segment.bytes": "20000", "retention.bytes": "200000", "flush.messages": "50"},
    "compacted": {"segment.bytes": "5000", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
}


@pytest.mark.slow
def test_passes_beside_appends(tmp_path: Path) -> None:
    write_meta_properties(tmp_path, MetaProperties("c", 1, Uuid(bytes(15) + b"\x81")), OsFileSystem())
    dirs = LogDirs([tmp_path], ManualClock(), topic_config=lambda topic: log_config(CONFIGS[topic]))
    dirs.acquire()
    dirs.load()
    logs = {
        tp: dirs.get_or_create(tp, Uuid(bytes(15) + b"\x82"), dirs.topic_config(tp.topic)) for tp in (PLAIN, COMPACTED)
    }
    done = threading.Event()
    errors: list[BaseException] = []

    def repeat(action: Callable[[], object]) -> None:
        try:
            while not done.wait(0.002):
                action()
        except BaseException as e:  # noqa: BLE001 - handed to the test's thread
            errors.append(e)

    actions = (dirs.retention_pass, dirs.flush_pass, dirs.clean_pass, dirs.checkpoint_pass, dirs.deletion_pass)
    threads = [threading.Thread(target=repeat, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    newest: dict[bytes, bytes] = {}
    for n in range(3000):
        key, value = b"k%d" % (n % 17), b"v%d" % n
        newest[key] = value
        for log in logs.values():
            info = log.append_as_leader(batch((key, value * 10), producer=(1, 0, n)), 0)
            log.update_high_watermark(info.last_offset + 1)
            data = log.read(max(log.log_start_offset, info.first_offset - n % 200), 5000).records.read()
            assert next(iter_headers(data, partial_tail=True))[1].next_offset > log.log_start_offset
    done.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert errors == []
    assert {r.key: r.value for r in read_all(logs[COMPACTED])} == {k: v * 10 for k, v in newest.items()}
    plain = logs[PLAIN]
    assert [r.offset for r in read_all(plain)] == list(range(plain.log_start_offset, 3000))
    assert plain.log_start_offset > 0
    assert len(read_all(logs[COMPACTED])) < 2000
    dirs.close()
