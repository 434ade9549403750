"""Producers that begin, end and abandon transactions on a real log, with one seed.

After each event what a READ_COMMITTED reader is given is compared with what a plain list of all that was written says.

The log rolls, is cut as a follower's, closed and opened again, well or badly, and a follower copies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import pytest

from barnabas.storage.log import Log
from barnabas.storage.log_validator import AppendOrigin
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import decode_batch, iter_headers
from tests.storage.logs import Bench, batch, marker

EVENTS = 150
PRODUCERS = range(5)


class Entry(NamedTuple):
    """One record as it was written. commit: of a marker, None for data."""

    pid: int
    epoch: int
    value: bytes
    commit: bool | None = None
    transactional: bool = True


@dataclass
class Pending:
    """A first batch whose verification is under way. stale: whether the transaction ended meanwhile."""

    guard: VerificationGuard
    epoch: int
    sequence: int
    stale: bool = False


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.bench = Bench(config={"segment.bytes": "500", "index.interval.bytes": "100"})
        self.bench.env.verify_transactions = True
        self.log: Log = self.bench.open()
        self.written: list[Entry] = []
        self.pending: dict[int, Pending] = {}
        self.version = {pid: self.rng.choice((1, 2)) for pid in PRODUCERS}
        self.count = 0
        self.seen: set[str] = set()

    # what the list says

    def epoch(self, pid: int) -> int:
        return max((e.epoch for e in self.written if e.pid == pid), default=0)

    def sequence(self, pid: int) -> int:
        epoch = self.epoch(pid)
        return sum(e.pid == pid and e.epoch == epoch and e.commit is None for e in self.written)

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """Give (producer, first offset, offset of its marker or None, whether it was committed)."""
        open_: dict[int, int] = {}
        found: list[tuple[int, int, int | None, bool]] = []
        for offset, entry in enumerate(self.written):
            if entry.commit is not None:
                if entry.pid in open_:
                    found.append((entry.pid, open_.pop(entry.pid), offset, entry.commit))
            elif entry.transactional:
                open_.setdefault(entry.pid, offset)
        return found + [(pid, first, None, False) for pid, first in open_.items()]

    def is_open(self, pid: int) -> bool:
        return any(one[0] == pid and one[2] is None for one in self.transactions())

    def stable(self) -> int:
        mark = self.log.high_watermark
        unstable = [first for _, first, end, _ in self.transactions() if end is None or end >= mark]
        return min([mark, *unstable])

    def visible(self) -> list[bytes]:
        aborted = [(pid, first, end) for pid, first, end, commit in self.transactions() if end and not commit]
        return [
            entry.value
            for offset, entry in enumerate(self.written[: self.stable()])
            if entry.commit is None
            and not (entry.transactional and any(p == entry.pid and a <= offset <= b for p, a, b in aborted))
        ]

    # events

    def step(self) -> None:
        pid = self.rng.choice(PRODUCERS)
        actions = {
            self.begin: 4, self.answer: 4, self.more: 5, self.end: 5, self.plain: 2, self.advance: 5, self.cut: 1,
            self.reopen: 1,
        }  # fmt: skip
        action = self.rng.choices(list(actions), list(actions.values()))[0]
        action(pid)
        self.check()

    def _value(self) -> bytes:
        self.count += 1
        return b"%d" % self.count

    def begin(self, pid: int) -> None:
        """Send the first batch of a transaction: its coordinator is asked."""
        if self.is_open(pid) or pid in self.pending:
            return
        epoch, sequence = self.epoch(pid), self.sequence(pid)
        guard = self.log.begin_verification(pid, epoch, sequence, bumps_epochs=self.version[pid] == 2)
        assert guard is not None
        self.pending[pid] = Pending(guard, epoch, sequence)

    def answer(self, pid: int) -> None:
        """Let the coordinator agree, in time or too late."""
        one = self.pending.pop(pid, None)
        if one is None:
            return
        data = batch(value := self._value(), producer=(pid, one.epoch, one.sequence), transactional=True)
        if one.stale:
            with pytest.raises(ApiError) as refused:
                self.log.append_as_leader(data, 0, guard=one.guard)
            assert refused.value.code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH)
            self.seen.add("late batch refused")
            return
        self.log.append_as_leader(data, 0, guard=one.guard)
        self.written.append(Entry(pid, one.epoch, value))

    def more(self, pid: int) -> None:
        """Write on in an open transaction."""
        if self.is_open(pid):
            epoch, value = self.epoch(pid), self._value()
            self.log.append_as_leader(batch(value, producer=(pid, epoch, self.sequence(pid)), transactional=True), 0)
            self.written.append(Entry(pid, epoch, value))

    def end(self, pid: int) -> None:
        """Write a marker, as a coordinator does that knows of the partition, or has timed the transaction out."""
        commit = self.is_open(pid) and self.rng.random() < 0.6
        epoch = self.epoch(pid) + (self.version[pid] == 2)
        self.log.append_as_leader(
            marker(pid, epoch, commit=commit),
            0,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=self.version[pid],
        )
        self.written.append(Entry(pid, epoch, b"", commit))
        if pid in self.pending:
            self.pending[pid].stale = True

    def plain(self, _: int) -> None:
        value = self._value()
        self.log.append_as_leader(batch(value), 0)
        self.written.append(Entry(-1, -1, value, transactional=False))

    def advance(self, _: int) -> None:
        log = self.log
        log.update_high_watermark(self.rng.randint(log.high_watermark, log.log_end_offset))

    def cut(self, _: int) -> None:
        """Lose what was not committed, as a leader does that follows again."""
        log = self.log
        offset = log.high_watermark
        if log.truncate_to(offset):
            self.seen.add("cut")
        del self.written[offset:]
        self._forget_verifications()

    def reopen(self, _: int) -> None:
        # All is committed: a snapshot does not say, in Kafka neither, which of the markers before it are not yet.
        mark, clean = self.log.log_end_offset, self.rng.random() < 0.5
        self.log.close(clean=clean)
        self.log = self.bench.open(clean=clean, recovery_point=self.log.recovery_point)
        self.log.update_high_watermark(mark)
        self._forget_verifications()

    def _forget_verifications(self) -> None:
        # Those who asked are answered by nobody: their requests ended with the leadership.
        for pid in list(self.pending):
            del self.pending[pid]
        self.log.producers.verifications.expire(1 << 62)

    # what must hold

    def check(self) -> None:
        log = self.log
        assert log.log_end_offset == len(self.written)
        assert log.last_stable_offset == self.stable()
        assert read_committed(log) == self.visible()
        ongoing = {first: pid for pid, first, end, _ in self.transactions() if end is None}
        assert log.producers.ongoing_txns == ongoing
        assert list(log.producers.ongoing_txns) == sorted(ongoing)


def read_committed(log: Log) -> list[bytes]:
    """Read as a consumer: leave out what the lists of aborted transactions say, up to each one's marker."""
    values: list[bytes] = []
    offset, end = log.log_start_offset, log.last_stable_offset
    while offset < end:
        fetched = log.read(offset, 150, max_offset=end, read_committed=True)
        aborted = sorted(fetched.aborted or (), key=lambda one: one.first_offset)
        now: set[int] = set()
        data = fetched.records.read()
        for position, header in iter_headers(data, partial_tail=True):
            while aborted and aborted[0].first_offset <= header.last_offset:
                now.add(aborted.pop(0).producer_id)
            if header.is_control:
                now.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in now):
                values += [r.value or b"" for r in decode_batch(data, position) if r.offset >= offset]
            following = header.next_offset
        offset = following
    return values


@pytest.mark.sim
def test_readers_are_given_what_was_committed_and_nothing_else(sim_seed: int) -> None:
    s = Simulation(sim_seed)
    for _ in range(EVENTS):
        s.step()
    follower = Bench(config={"segment.bytes": "300"}).open()
    while follower.log_end_offset < s.log.log_end_offset:
        follower.append_as_follower(memoryview(s.log.read(follower.log_end_offset, 200).records.read()))
    follower.update_high_watermark(s.log.high_watermark)
    assert follower.last_stable_offset == s.log.last_stable_offset
    assert read_committed(follower) == s.visible()


def test_the_simulation_meets_what_it_is_for() -> None:
    seen: set[str] = set()
    for seed in range(10):
        s = Simulation(seed)
        for _ in range(EVENTS):
            s.step()
        seen |= s.seen
        if any(end and not commit for _, _, end, commit in s.transactions()):
            seen.add("abort")
    assert seen == {"late batch refused", "cut", "abort"}
