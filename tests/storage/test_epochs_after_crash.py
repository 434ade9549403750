"""Whatever a power failure leaves of a log, its epochs are those of its batches."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.storage.log import Log
from barnabas.wire.record_batch import iter_headers

from .logs import Bench, batch


def epochs_of(log: Log) -> list[tuple[int, int]]:
    """Give the epochs of the batches, each with its first offset."""
    found: list[tuple[int, int]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        headers = [h for _, h in iter_headers(log.read(offset, 1 << 20).records.read(), partial_tail=True)]
        assert headers, f"nothing can be read at {offset}"
        for header in headers:
            if not found or found[-1][0] != header.leader_epoch:
                found.append((header.leader_epoch, header.base_offset))
            offset = header.next_offset
    return found


@pytest.mark.parametrize("seed", range(40))
def test_epochs_are_those_of_the_batches(seed: int) -> None:
    rng = Random(seed)
    bench = Bench(config={"segment.bytes": "300"})
    log, epoch, recovery_point = bench.open(), 0, 0
    for _ in range(5):
        for _ in range(rng.randrange(40)):
            match rng.randrange(9):
                case 0 | 1:
                    epoch += rng.randrange(1, 3)
                    log.leader_epochs.assign(epoch, log.log_end_offset)
                case 2:
                    log.flush()
                case 3:
                    log.flush_sealed()
                case 4:
                    recovery_point = log.recovery_point
                case 5 if rng.randrange(3) == 0:
                    # Another has led meanwhile, and knows nothing of our last epoch.
                    log.truncate_to(rng.randrange(log.log_start_offset, log.log_end_offset + 1))
                    recovery_point = min(recovery_point, log.log_end_offset)
                    epoch += rng.randrange(1, 3)
                case _:
                    log.append_as_leader(batch(rng.randbytes(rng.randrange(60))), epoch)
        bench.fs.crash(rng, keep_names=bool(rng.randrange(2)))
        log = bench.open(recovery_point=recovery_point)
        if log.first_lost is not None:
            log.truncate_to(log.first_lost)  # as a follower does: its leader has what is missing
        recovery_point = min(recovery_point, log.log_end_offset)
        assert log.leader_epochs.entries == epochs_of(log)


def test_a_clean_stop_keeps_them() -> None:
    bench = Bench(config={"segment.bytes": "300"})
    log = bench.open()
    for epoch in range(10):
        log.leader_epochs.assign(epoch, log.log_end_offset)
        if epoch % 3:
            log.append_as_leader(batch(b"x"), epoch)
    log.close()
    again = bench.open(clean=True, recovery_point=log.recovery_point)
    assert again.leader_epochs.entries == epochs_of(again) == [(e, n) for n, e in enumerate((1, 2, 4, 5, 7, 8))]
