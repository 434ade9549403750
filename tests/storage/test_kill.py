"""kill -9 in a loop: nothing that an append acknowledged is lost, and a torn tail is cut and counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from barnabas.model.uuid import Uuid
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import MetaProperties, write_meta_properties

from .crash_writer import TP, digest, open_dirs
from .logs import read_all

KILLS = 100


class Ack(NamedTuple):
    """What the writer was told of one append."""

    first: int
    last: int
    digest: str


def killed_writer(writer: subprocess.Popen[str], directory: Path, seed: int, after: int) -> list[Ack]:
    """Let a writer run until it said `after` acks, kill it, and give all it ever said."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(f"{directory} {seed}\n")
    writer.stdin.flush()
    acks: list[Ack] = []
    pid = 0
    for line in writer.stdout:
        match line.split():
            case ["pid", number]:
                pid = int(number)
            case ["ack", first, last, name]:
                acks.append(Ack(int(first), int(last), name))
            case ["dead"]:
                return acks
        if pid and len(acks) >= after:
            os.kill(pid, signal.SIGKILL)
            pid = 0
    raise AssertionError("the writer's parent is gone")


@pytest.mark.crash
def test_nothing_acknowledged_is_lost_over_a_hundred_kills(tmp_path: Path) -> None:
    rng = Random(4711)
    directory = tmp_path / "data"
    directory.mkdir()
    write_meta_properties(directory, MetaProperties("crash", 1, Uuid(bytes(15) + b"\x66")), OsFileSystem())
    acked: dict[int, str] = {}
    end = torn = 0
    command = [sys.executable, "-m", f"{__package__}.crash_writer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for round_ in range(KILLS):
            acks = killed_writer(writer, directory, round_, rng.randint(0, 12))
            acked.update({ack.first: ack.digest for ack in acks})
            end = max([end, *(ack.last + 1 for ack in acks)])
            garbage = rng.randbytes(rng.randint(1, 200)) if round_ % 4 == 3 else b""
            if garbage:
                newest = max((directory / "crash-0").glob("*.log"))
                with newest.open("ab") as file:
                    file.write(garbage)
            with capture_logs() as logged:
                dirs = open_dirs(directory)
            log = dirs.logs[TP]
            assert log.log_end_offset >= end, f"round {round_}"
            kept = {r.offset: r.value for r in read_all(log, max_bytes=4 << 20)}
            acked = {offset: name for offset, name in acked.items() if offset >= log.log_start_offset}
            assert {offset: digest(kept[offset] or b"") for offset in acked} == acked, f"round {round_}"
            cut = [e["bytes"] for e in logged if e["event"] in ("torn tail cut", "segments deleted")]
            assert sum(cut) == log.recovered_bytes_cut >= len(garbage)
            torn += bool(cut)
            end = log.log_end_offset
            dirs.close(clean=round_ % 10 == 9)
    assert torn >= KILLS // 4
