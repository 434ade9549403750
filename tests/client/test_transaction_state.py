"""The transactional producer's states and verdicts, as tables."""

from __future__ import annotations

import pytest

from barnabas.client.producer_id import NO_PRODUCER, ProducerId
from barnabas.client.transaction_errors import (
    ABORT,
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT,
    COMMIT_OFFSETS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    AbortableTransactionError,
    FatalTransactionError,
    IllegalTransactionStateError,
    Judgement,
    ProducerFencedError,
    TransactionError,
    Verdict,
    explained,
    of_failed_batch,
)
from barnabas.client.transaction_state import TRANSITIONS, Phase, TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import DisconnectedError
from barnabas.wire.errors import ApiError, ErrorCode

E = ErrorCode
V = Verdict
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALL = (INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS, COMMIT, ABORT)


def ready(*, v2: bool = False, can_bump: bool = True) -> TransactionState:
    state = TransactionState("id")
    state.starting()
    state.identified(ProducerId(7, 3), v2=v2, can_bump=can_bump)
    return state


def opened(*, v2: bool = False, can_bump: bool = True) -> TransactionState:
    state = ready(v2=v2, can_bump=can_bump)
    state.begin()
    return state


def error(verdict: Verdict = V.ABORT, code: ErrorCode = E.UNKNOWN_SERVER_ERROR) -> TransactionError:
    return explained(verdict, code, "id", "testing")


@pytest.mark.parametrize("judgement", ALL)
def test_every_request_is_fenced_moved_and_retried_alike(judgement: Judgement) -> None:
    assert judgement.of(E.NONE) is V.DONE
    assert judgement.of(E.NOT_COORDINATOR) is judgement.of(E.COORDINATOR_NOT_AVAILABLE) is V.SEEK
    assert judgement.of(E.COORDINATOR_LOAD_IN_PROGRESS) is judgement.of(E.CONCURRENT_TRANSACTIONS) is V.AGAIN
    assert judgement.of(E.PRODUCER_FENCED) is judgement.of(E.INVALID_PRODUCER_EPOCH) is V.FATAL


@pytest.mark.parametrize(
    ("judgement", "code", "verdict"),
    [
        (FIND_COORDINATOR, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, V.FATAL),
        (FIND_COORDINATOR, E.GROUP_AUTHORIZATION_FAILED, V.ABORT),
        (INIT_PRODUCER_ID, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, V.ABORT),
        (INIT_PRODUCER_ID, E.INVALID_TRANSACTION_TIMEOUT, V.FATAL),
        (ADD_PARTITIONS, E.TOPIC_AUTHORIZATION_FAILED, V.ABORT),
        (ADD_PARTITIONS, E.OPERATION_NOT_ATTEMPTED, V.ABORT),
        (ADD_PARTITIONS, E.UNKNOWN_TOPIC_OR_PARTITION, V.AGAIN),
        (ADD_PARTITIONS, E.UNKNOWN_PRODUCER_ID, V.BUMP),
        (ADD_PARTITIONS, E.INVALID_TXN_STATE, V.FATAL),
        (ADD_PARTITIONS, E.INVALID_PRODUCER_ID_MAPPING, V.FATAL),
        (ADD_OFFSETS, E.GROUP_AUTHORIZATION_FAILED, V.ABORT),
        (ADD_OFFSETS, E.INVALID_TXN_STATE, V.FATAL),
        (COMMIT_OFFSETS, E.ILLEGAL_GENERATION, V.ABORT),
        (COMMIT_OFFSETS, E.UNKNOWN_MEMBER_ID, V.ABORT),
        (COMMIT_OFFSETS, E.FENCED_INSTANCE_ID, V.ABORT),
        (COMMIT_OFFSETS, E.REQUEST_TIMED_OUT, V.SEEK),
        (COMMIT_OFFSETS, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, V.FATAL),
        (COMMIT, E.TRANSACTION_ABORTABLE, V.ABORT),
        (COMMIT, E.INVALID_TXN_STATE, V.FATAL),
        (ABORT, E.TRANSACTION_ABORTABLE, V.FATAL),
        (ABORT, E.UNKNOWN_PRODUCER_ID, V.BUMP),
    ],
)
def test_the_verdict_on_a_refusal(judgement: Judgement, code: ErrorCode, verdict: Verdict) -> None:
    assert judgement.of(code) is verdict


def test_the_worst_verdict_of_several_partitions_counts() -> None:
    codes = [E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS, E.ILLEGAL_GENERATION, E.NOT_COORDINATOR]
    assert COMMIT_OFFSETS.worst(codes) == (V.ABORT, E.ILLEGAL_GENERATION)
    assert COMMIT_OFFSETS.worst([]) == (V.DONE, E.NONE)


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (ApiError(E.PRODUCER_FENCED), V.FATAL),
        (ApiError(E.INVALID_PRODUCER_ID_MAPPING), V.FATAL),
        (ApiError(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), V.FATAL),
        (ApiError(E.INVALID_PRODUCER_EPOCH), V.BUMP),
        (ApiError(E.OUT_OF_ORDER_SEQUENCE_NUMBER), V.BUMP),
        (ApiError(E.TOPIC_AUTHORIZATION_FAILED), V.BUMP),
        (DisconnectedError("gone"), V.BUMP),
    ],
)
def test_the_verdict_on_a_batch_that_is_given_up(failure: Exception, verdict: Verdict) -> None:
    assert of_failed_batch(failure) is verdict


@pytest.mark.parametrize(
    ("verdict", "code", "kind"),
    [
        (V.ABORT, E.ILLEGAL_GENERATION, AbortableTransactionError),
        (V.BUMP, E.UNKNOWN_PRODUCER_ID, AbortableTransactionError),
        (V.FATAL, E.INVALID_TXN_STATE, FatalTransactionError),
        (V.FATAL, E.INVALID_PRODUCER_EPOCH, ProducerFencedError),
    ],
)
def test_what_is_raised_for_a_verdict(verdict: Verdict, code: ErrorCode, kind: type[TransactionError]) -> None:
    made = explained(verdict, code, "orders", "committing")
    assert type(made) is kind
    assert "'orders'" in str(made)


def test_every_phase_has_its_transitions_and_no_way_leads_out_of_a_fatal_error() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert not TRANSITIONS[Phase.FATAL_ERROR]
    reached = {Phase.UNINITIALIZED, *(to for targets in TRANSITIONS.values() for to in targets)}
    assert reached | {Phase.FATAL_ERROR} == set(Phase)


@pytest.mark.parametrize("commit", [True, False])
def test_an_uneventful_transaction(commit: bool) -> None:
    state = opened()
    assert not state.admits(P0)
    assert state.unadded == {P0}
    state.added([P0])
    assert state.admits(P0)
    assert (state.started, state.unadded) == (True, set())
    state.ending(commit=commit)
    assert state.phase is (Phase.COMMITTING if commit else Phase.ABORTING)
    assert not state.ended(None, v2=False)
    assert (state.phase, state.producer, state.started) == (Phase.READY, ProducerId(7, 3), False)
    state.begin()
    assert not state.admits(P0)  # each transaction names its partitions anew


def test_brokers_add_partitions_by_themselves_in_version_2() -> None:
    state = opened(v2=True)
    assert state.admits(P0)
    assert state.started
    state.ending(commit=True)
    assert not state.ended(ProducerId(7, 4), v2=True)
    assert (state.phase, state.producer) == (Phase.READY, ProducerId(7, 4))


@pytest.mark.parametrize(
    ("was", "becomes", "bump"), [(False, True, True), (False, False, False), (True, True, False), (True, False, False)]
)
def test_who_goes_over_to_version_2_needs_a_new_epoch(was: bool, becomes: bool, bump: bool) -> None:
    state = opened(v2=was)
    state.ending(commit=True)
    assert state.ended(ProducerId(7, 4) if was else None, v2=becomes) is bump
    assert state.phase is (Phase.INITIALIZING if bump else Phase.READY)
    assert state.v2 is becomes


def test_an_abortable_error_lets_nothing_but_abort_through() -> None:
    state, why = opened(), error()
    assert state.fail(V.ABORT, why)
    assert not state.fail(V.ABORT, error())  # the first reason is told
    for refused in (state.check, state.begin, lambda: state.check_open("send()"), lambda: state.ending(commit=True)):
        with pytest.raises(TransactionError) as raised:
            refused()
        assert raised.value is why
    state.ending(commit=False)
    assert not state.ended(None, v2=False)
    state.check()
    state.begin()


def test_a_lost_sequence_asks_for_a_new_epoch_after_the_abort() -> None:
    state = opened()
    state.fail(V.BUMP, error(V.BUMP))
    state.ending(commit=False)
    assert state.ended(None, v2=False)
    assert state.phase is Phase.INITIALIZING
    state.identified(ProducerId(7, 4), v2=False, can_bump=True)
    assert (state.phase, state.must_bump) == (Phase.READY, False)


def test_in_version_2_the_end_itself_gives_the_new_epoch() -> None:
    state = opened(v2=True)
    state.fail(V.BUMP, error(V.BUMP))
    state.ending(commit=False)
    assert not state.ended(ProducerId(7, 4), v2=True)


def test_without_new_epochs_a_lost_sequence_is_fatal() -> None:
    state = opened(can_bump=False)
    assert state.fail(V.BUMP, error(V.BUMP))
    assert state.phase is Phase.FATAL_ERROR


def test_while_aborting_only_what_is_fatal_counts() -> None:
    state = opened()
    state.ending(commit=False)
    assert not state.fail(V.ABORT, error())
    assert state.phase is Phase.ABORTING
    assert state.fail(V.FATAL, error(V.FATAL))
    assert not state.fail(V.FATAL, error(V.FATAL))
    for refused in (state.check, state.begin, lambda: state.ending(commit=False)):
        with pytest.raises(FatalTransactionError):
            refused()


def test_a_refused_start_may_be_tried_again() -> None:
    state = TransactionState("id")
    state.starting()
    assert not state.fail(V.ABORT, error())
    assert (state.phase, state.producer) == (Phase.UNINITIALIZED, NO_PRODUCER)
    state.starting()


def test_what_waits_to_be_added_is_forgotten_by_an_abort() -> None:
    state = opened()
    state.admits(P0)
    state.ending(commit=False)
    assert not state.unadded
    state.added([P1])  # its answer was on the way: the coordinator has it, so it is told of the end
    assert state.started


@pytest.mark.parametrize(
    ("phase", "advice"),
    [
        (Phase.UNINITIALIZED, "init_transactions"),
        (Phase.READY, r"begin\(\) first"),
        (Phase.COMMITTING, "commit"),
        (Phase.ABORTING, "abort"),
    ],
)
def test_a_call_at_the_wrong_moment_says_what_to_do(phase: Phase, advice: str) -> None:
    state = TransactionState("id") if phase is Phase.UNINITIALIZED else opened()
    if phase in (Phase.COMMITTING, Phase.ABORTING):
        state.ending(commit=phase is Phase.COMMITTING)
    elif phase is Phase.READY:
        state.ending(commit=True)
        state.ended(None, v2=False)
    with pytest.raises(IllegalTransactionStateError, match=advice):
        state.check_open("send()")
    if phase is not Phase.READY:
        with pytest.raises(IllegalTransactionStateError):
            state.begin()
