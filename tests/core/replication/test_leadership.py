"""What a leader decides of followers, the ISR and the watermarks."""

from __future__ import annotations

import pytest

from barnabas.core.replication.in_sync import Fate, Granted, IsrChange, Member
from barnabas.core.replication.leadership import Assignment, LeaderLog, Leadership
from barnabas.wire.errors import ApiError, ErrorCode

LAG_MS = 100
OWN_EPOCH = 11


class Alive:
    """Brokers 1, 2, 3 with the epochs 11, 12, 13; some of them fenced."""

    def __init__(self, *fenced: int) -> None:
        self.fenced = fenced

    def epoch(self, broker_id: int) -> int | None:
        return None if broker_id in self.fenced else 10 + broker_id

    def may_join_isr(self, broker_id: int) -> bool:
        return broker_id not in self.fenced


EVERYBODY = Alive()


def log(end: int, high_watermark: int = 0, start: int = 0) -> LeaderLog:
    return LeaderLog(start, end, high_watermark)


def leader(isr: tuple[int, ...] = (1, 2, 3), end: int = 0, **rest: bool) -> Leadership:
    return Leadership(1, Assignment((1, 2, 3), isr, 5, 7, **rest), log(end), 0)  # type: ignore[arg-type]


def fetched(led: Leadership, broker: int, offset: int, leader_end: int, now_ms: int = 0, start: int = 0) -> None:
    led.followers[broker].fetched(offset, start, 10 + broker, leader_end, now_ms)


def mark(led: Leadership, at: LeaderLog, now_ms: int = 0, min_isr: int = 1, brokers: Alive = EVERYBODY) -> int:
    return led.committed_to(at, min_isr, now_ms, LAG_MS, brokers)


def test_the_high_watermark_is_what_all_in_sync_have() -> None:
    led = leader()
    assert mark(led, log(10)) == 0
    fetched(led, 2, 8, 10)
    assert mark(led, log(10)) == 0
    fetched(led, 3, 5, 10)
    assert mark(led, log(10)) == 5


def test_the_high_watermark_never_goes_back() -> None:
    led = leader()
    fetched(led, 2, 3, 10)
    fetched(led, 3, 3, 10)
    assert mark(led, log(10, high_watermark=6)) == 6


def test_with_too_few_in_sync_nothing_is_committed() -> None:
    led = leader(isr=(1,))
    assert mark(led, log(10), now_ms=10 * LAG_MS, min_isr=2) == 0
    assert mark(led, log(10), now_ms=10 * LAG_MS, min_isr=1) == 10


def test_a_follower_about_to_join_holds_the_high_watermark_back() -> None:
    led = leader(isr=(1, 2))
    fetched(led, 2, 10, 10)
    fetched(led, 3, 6, 6, now_ms=50)
    assert mark(led, log(10), now_ms=60) == 6
    assert mark(led, log(10), now_ms=60 + LAG_MS) == 10
    assert mark(led, log(10), now_ms=60, brokers=Alive(3)) == 10


def test_a_follower_that_has_caught_up_is_proposed_with_the_epoch_it_fetched_with() -> None:
    led = leader(isr=(1, 2), end=4)
    follower = led.followers[3]
    fetched(led, 3, 3, 10)
    assert led.expansion(follower, log(10), OWN_EPOCH, EVERYBODY) is None, "before the leader epoch began"
    fetched(led, 3, 4, 10)
    assert led.expansion(follower, log(10, high_watermark=5), OWN_EPOCH, EVERYBODY) is None
    assert led.expansion(follower, log(10), OWN_EPOCH, Alive(3)) is None
    proposal = led.expansion(follower, log(10), OWN_EPOCH, EVERYBODY)
    assert proposal is not None
    assert proposal.change is IsrChange.EXPAND
    assert proposal.isr == (Member(1, OWN_EPOCH), Member(2, -1), Member(3, 13))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 7)
    assert led.maximal_isr == {1, 2, 3}
    assert led.isr == (1, 2)


def test_a_broker_that_registered_anew_is_not_proposed_for_what_it_fetched_before() -> None:
    led = leader(isr=(1, 2))
    led.followers[3].fetched(0, 0, 9, 0, 0)
    assert led.expansion(led.followers[3], log(0), OWN_EPOCH, EVERYBODY) is None
    with pytest.raises(ApiError) as refused:
        led.check_broker_epoch(3, 9, EVERYBODY)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.check_broker_epoch(3, -1, EVERYBODY)


def test_those_who_lag_are_proposed_to_leave_but_count_until_that_is_granted() -> None:
    led = leader()
    fetched(led, 2, 10, 10, now_ms=LAG_MS)
    fetched(led, 3, 4, 10, now_ms=LAG_MS)
    assert led.shrink(log(10), OWN_EPOCH, LAG_MS, LAG_MS) is None, "in sync when the epoch began"
    proposal = led.shrink(log(10), OWN_EPOCH, LAG_MS + 1, LAG_MS)
    assert proposal is not None
    assert proposal.broker_ids == (1, 2)
    assert mark(led, log(10), now_ms=LAG_MS + 1) == 4
    assert led.granted(proposal, Granted((1, 2), 5, 8)) is Fate.COMMITTED
    assert mark(led, log(10), now_ms=LAG_MS + 1) == 10
    assert led.partition_epoch == 8


def test_small_and_frequent_writes_keep_nobody_out_of_sync() -> None:
    led = leader()
    for now_ms in range(0, 10 * LAG_MS, 10):
        end = now_ms // 10
        fetched(led, 2, end - 1, end, now_ms=now_ms)
        fetched(led, 3, 0, end, now_ms=now_ms)
    proposal = led.shrink(log(end), OWN_EPOCH, now_ms, LAG_MS)
    assert proposal is not None
    assert proposal.broker_ids == (1, 2)


def test_one_change_at_a_time() -> None:
    led = leader(isr=(1, 2))
    fetched(led, 3, 0, 0)
    assert led.expansion(led.followers[3], log(0), OWN_EPOCH, EVERYBODY) is not None
    assert led.shrink(log(10), OWN_EPOCH, 10 * LAG_MS, LAG_MS) is None


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, Fate.DROPPED),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Fate.DROPPED),
        (ErrorCode.INVALID_UPDATE_VERSION, Fate.WAIT),
        (ErrorCode.FENCED_LEADER_EPOCH, Fate.WAIT),
        (ErrorCode.NEW_LEADER_ELECTED, Fate.WAIT),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Fate.RETRY),
    ],
)
def test_what_becomes_of_a_refused_proposal(error: ErrorCode, fate: Fate) -> None:
    led = leader(isr=(1, 2))
    fetched(led, 3, 0, 0)
    proposal = led.expansion(led.followers[3], log(0), OWN_EPOCH, EVERYBODY)
    assert proposal is not None
    assert led.refused(proposal, error) is fate
    assert (led.pending is None) is (fate is Fate.DROPPED)
    assert led.maximal_isr == ({1, 2} if fate is Fate.DROPPED else {1, 2, 3})


def test_the_metadata_log_settles_what_is_in_flight() -> None:
    led = leader(isr=(1, 2))
    fetched(led, 3, 0, 0)
    proposal = led.expansion(led.followers[3], log(0), OWN_EPOCH, EVERYBODY)
    assert proposal is not None
    assert not led.renew(Assignment((1, 2, 3), (1, 2, 3), 5, 8), log(0), 0)
    assert led.maximal_isr == {1, 2, 3}
    assert led.granted(proposal, Granted((1, 2, 3), 5, 8)) is Fate.STALE
    assert led.renew(Assignment((1, 2, 3), (1,), 6, 9), log(20), 0)
    assert led.epoch_start_offset == 20
    assert not led.renew(Assignment((1, 2, 3), (1, 2), 5, 8), log(0), 0), "older than what is known"
    assert led.maximal_isr == {1}


def test_a_new_epoch_of_the_same_leader_keeps_positions() -> None:
    led = leader()
    fetched(led, 2, 7, 10)
    led.renew(Assignment((1, 2, 3), (1, 2, 3), 6, 8), log(10), 0)
    assert led.followers[2].log_end_offset == 7


def test_who_is_no_replica_tries_again() -> None:
    led = leader()
    for known, code in ((True, ErrorCode.UNKNOWN_LEADER_EPOCH), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(ApiError) as refused:
            led.follower(4, epoch_known=known)
        assert refused.value.code is code


def test_the_low_watermark_is_that_of_the_living() -> None:
    led = leader()
    fetched(led, 2, 50, 50, start=30)
    fetched(led, 3, 50, 50, start=10)
    assert led.low_watermark(40, EVERYBODY) == 10
    assert led.low_watermark(40, Alive(3)) == 30


def test_a_leader_elected_uncleanly_says_that_it_has_recovered() -> None:
    led = leader(isr=(1,), recovering=True)
    proposal = led.recovery(OWN_EPOCH)
    assert proposal is not None
    assert proposal.isr == (Member(1, OWN_EPOCH),)
    assert led.granted(proposal, Granted((1,), 5, 8)) is Fate.COMMITTED
    assert led.recovery(OWN_EPOCH) is None
