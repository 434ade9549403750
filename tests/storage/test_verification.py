"""The guard of a transaction's first batch in a partition (KIP-890), on real logs."""

from __future__ import annotations

import pytest

from barnabas.storage.log import Log
from barnabas.storage.log_validator import AppendOrigin
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.errors import ApiError, ErrorCode
from tests.storage.logs import NOW_MS, Bench, batch, marker

E = ErrorCode
PID = 7


def verifying() -> Log:
    bench = Bench()
    bench.env.verify_transactions = True
    return bench.open()


def begin(log: Log, epoch: int = 0, sequence: int = 0, *, v2: bool = False) -> VerificationGuard | None:
    return log.begin_verification(PID, epoch, sequence, bumps_epochs=v2)


def write(log: Log, guard: VerificationGuard | None, epoch: int = 0, sequence: int = 0) -> int:
    data = batch(b"x", producer=(PID, epoch, sequence), transactional=True)
    return log.append_as_leader(data, 0, guard=guard).first_offset


def end(log: Log, epoch: int, *, version: int = 0, commit: bool = False) -> None:
    log.append_as_leader(
        marker(PID, epoch, commit=commit), 0, origin=AppendOrigin.COORDINATOR, transaction_version=version
    )


def refused(log: Log, guard: VerificationGuard | None, epoch: int = 0, sequence: int = 0) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(ApiError) as caught:
        write(log, guard, epoch, sequence)
    assert log.log_end_offset == before
    return caught.value.code


def test_the_first_batch_needs_a_guard_and_the_next_ones_none() -> None:
    log = verifying()
    assert refused(log, None) is E.INVALID_TXN_STATE
    guard = begin(log)
    assert guard is not None
    assert refused(log, VerificationGuard()) is E.INVALID_TXN_STATE
    assert begin(log) is guard, "a second batch waits for the same answer"
    write(log, guard)
    assert begin(log, sequence=1) is None
    write(log, None, sequence=1)


@pytest.mark.parametrize("commit", [True, False])
def test_an_answer_that_comes_after_the_end_counts_no_more(commit: bool) -> None:
    log = verifying()
    late = begin(log)
    end(log, 0, commit=commit)
    assert refused(log, late) is E.INVALID_TXN_STATE
    following = begin(log)
    assert following is not late
    assert refused(log, late) is E.INVALID_TXN_STATE, "the next transaction is another"
    write(log, following)


def test_a_batch_after_the_end_is_refused_though_the_transaction_was_open_when_it_came() -> None:
    log = verifying()
    write(log, begin(log))
    assert begin(log, sequence=1) is None
    end(log, 0)
    assert refused(log, None, sequence=1) is E.INVALID_TXN_STATE


def test_who_is_fenced_is_told_so_before_anybody_is_asked() -> None:
    log = verifying()
    write(log, begin(log, 5), 5)
    end(log, 6, version=2)
    with pytest.raises(ApiError) as caught:
        begin(log, 5)
    assert caught.value.code is E.INVALID_PRODUCER_EPOCH
    assert refused(log, None, 5, 1) is E.INVALID_PRODUCER_EPOCH


def test_a_repetition_is_known_again_without_a_guard() -> None:
    log = verifying()
    write(log, begin(log))
    end(log, 0)
    assert write(log, None) == 0
    assert log.log_end_offset == 2


def test_no_batch_overtakes_one_that_is_still_being_verified() -> None:
    log = verifying()
    guard = begin(log, sequence=3)
    assert begin(log, sequence=1) is guard
    assert begin(log, sequence=5) is guard
    assert refused(log, guard, sequence=3) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, guard, sequence=1)
    assert len(log.producers.verifications) == 0


def test_a_later_epoch_begins_its_sequences_anew() -> None:
    log = verifying()
    begin(log, 0, 0)
    guard = begin(log, 1, 4)
    begin(log, 0, 2)
    write(log, guard, 1, 4)


def test_with_version_2_an_unknown_producer_begins_with_zero() -> None:
    log = verifying()
    guard = begin(log, sequence=2, v2=True)
    assert refused(log, guard, sequence=2) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    begin(log, sequence=0, v2=True)
    write(log, guard)


def test_with_version_2_the_marker_before_leaves_the_next_transactions_guard() -> None:
    log = verifying()
    write(log, begin(log, 3, v2=True), 3)
    guard = begin(log, 4, v2=True)  # the client knows of the new epoch before the marker is here
    end(log, 4, version=2)
    write(log, guard, 4)
    other = verifying()
    write(other, begin(other, 3), 3)
    guard = begin(other, 4)
    end(other, 4)
    assert refused(other, guard, 4) is E.INVALID_TXN_STATE, "without version 2 the epoch may be that of the marker"


def test_a_coordinators_batches_are_verified_too_and_markers_are_not() -> None:
    log = verifying()
    data = batch((b"k", b"v"), (b"l", b"v"), producer=(PID, 0, -1), transactional=True)
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(data, 0, origin=AppendOrigin.COORDINATOR)
    assert caught.value.code is E.INVALID_TXN_STATE
    guard = log.begin_verification(PID, 0, -1, bumps_epochs=False)
    log.append_as_leader(data, 0, origin=AppendOrigin.COORDINATOR, guard=guard)
    assert log.producers.entries[PID].last_sequence == -1
    end(log, 0)


def test_what_nobody_brought_to_an_end_is_forgotten() -> None:
    log = verifying()
    guard = begin(log)
    log.expire_producers(NOW_MS + 86_399_999)
    assert begin(log) is guard
    log.expire_producers(NOW_MS + 86_400_000)
    assert begin(log) is not guard


def test_followers_ask_nobody_and_forget_what_they_asked_as_leaders() -> None:
    leader, follower = verifying(), verifying()
    begin(follower)
    write(leader, begin(leader))
    follower.append_as_follower(memoryview(leader.read(0, 1000).records.read()))
    assert len(follower.producers.verifications) == 0
    assert follower.producers.ongoing_txns == {0: PID}


def test_nothing_is_verified_where_that_is_switched_off() -> None:
    write(Bench().open(), None)
