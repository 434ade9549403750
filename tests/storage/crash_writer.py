"""A process that writes through LogDirs until somebody kills it; run as a module by `test_kill`.

One line of standard input, `DIR SEED`, forks a writer. It says `pid N`, then `ack FIRST LAST DIGEST` after each append
that returned; when it is dead, its parent says `dead`.
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from pathlib import Path
from random import Random

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage.log_dirs import LogDirs
from barnabas.wire.record_batch import Compression

from .logs import NOW_MS, ManualClock, batch, log_config

TP = TopicPartition("crash", 0)
TOPIC_ID = Uuid(bytes(15) + b"\x77")
CONFIG = {"segment.bytes": "3000000", "retention.bytes": "6000000", "index.interval.bytes": "1000"}


def digest(value: bytes) -> str:
    """Give a short name of a value."""
    return blake2b(value, digest_size=8).hexdigest()


def open_dirs(directory: Path) -> LogDirs:
    """Open the directory as a starting node does."""
    dirs = LogDirs([directory], ManualClock(), topic_config=lambda topic: log_config(CONFIG))
    dirs.acquire()
    dirs.load()
    return dirs


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def _write_until_killed(directory: Path, seed: int) -> None:
    rng = Random(seed)
    dirs = open_dirs(directory)
    log = dirs.get_or_create(TP, TOPIC_ID, log_config(CONFIG))
    log.update_high_watermark(log.log_end_offset)
    known = log.producers.entries.get(5)
    sequence = known.last_sequence + 1 if known is not None else 0
    _say(f"pid {os.getpid()}")
    while True:
        size = rng.choice([10, 1000, 100_000, 900_000])
        values = [rng.randbytes(size)] + [b"x"] * rng.randint(0, 3)
        codec = rng.choice([Compression.NONE, Compression.LZ4])
        producer = None
        if rng.random() < 0.5:
            producer = (5, 0, sequence)
            sequence += len(values)
        info = log.append_as_leader(batch(*values, timestamp=NOW_MS, compression=codec, producer=producer), seed)
        log.update_high_watermark(log.log_end_offset)
        _say(f"ack {info.first_offset} {info.last_offset} {digest(values[0])}")
        match rng.randint(0, 30):
            case 0:
                dirs.flush_pass()
            case 1:
                dirs.retention_pass()
            case 2:
                dirs.checkpoint_pass()
            case 3:
                log.roll()


def main() -> None:
    """Fork a writer for each line of input."""
    for line in sys.stdin:
        directory, seed = line.split()
        pid = os.fork()
        if not pid:
            _write_until_killed(Path(directory), int(seed))
        os.waitpid(pid, 0)
        _say("dead")


if __name__ == "__main__":
    main()
