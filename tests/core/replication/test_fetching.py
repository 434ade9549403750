"""What a follower names in its fetches, and when it begins a session anew."""

from __future__ import annotations

from barnabas.core.replication.fetching import Ask, Fetching, Position, TopicIdPartition
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ErrorCode

A, B, C = (TopicIdPartition(Uuid(bytes(15) + b"t"), n) for n in range(3))


def at(offset: int, epoch: int = 0) -> Position:
    return Position(epoch, offset, 0, 0)


def asked(ask: Ask | None) -> list[TopicIdPartition]:
    assert ask is not None
    return [key for key, _ in ask.positions]


def in_session(*keys: TopicIdPartition) -> Fetching:
    """Give one whose session is established, with these in it."""
    fetching = Fetching()
    for key in keys:
        fetching.put(key, at(0))
    first = fetching.next(0)
    assert first is not None
    assert (first.session_id, first.epoch, first.full) == (0, 0, True)
    assert fetching.answered(first, ErrorCode.NONE, 77)
    return fetching


def following(fetching: Fetching, now_ms: int = 0) -> Ask:
    ask = fetching.next(now_ms)
    assert ask is not None
    fetching.answered(ask, ErrorCode.NONE, ask.session_id)
    return ask


def test_only_what_moved_is_named() -> None:
    fetching = in_session(A, B)
    fetching.put(A, at(5))
    assert not fetching.is_current(A)
    ask = following(fetching)
    assert (ask.session_id, ask.epoch) == (77, 1)
    assert ask.positions == [(A, at(5))]
    assert fetching.is_current(A)
    ask = following(fetching)
    assert (ask.epoch, ask.positions, ask.forgotten) == (2, [], [])


def test_what_goes_is_forgotten_and_what_comes_back_is_not() -> None:
    fetching = in_session(A, B)
    fetching.remove(A)
    fetching.remove(B)
    fetching.put(B, at(0))
    ask = following(fetching)
    assert (asked(ask), ask.forgotten) == ([B], [A])


def test_what_is_put_off_rests_until_its_time() -> None:
    fetching = in_session(A, B)
    fetching.put_off(A, 100)
    ask = following(fetching, 0)
    assert (asked(ask), ask.forgotten) == ([], [A])
    assert fetching.next_due_ms() == 100
    assert asked(following(fetching, 99)) == []
    assert asked(following(fetching, 100)) == [A]
    assert fetching.next_due_ms() is None


def test_news_end_a_rest() -> None:
    fetching = in_session(A, B)
    fetching.put_off(A, 100)
    following(fetching)
    fetching.put(A, at(0, epoch=1))
    assert asked(following(fetching)) == [A]


def test_what_is_held_is_left_out() -> None:
    fetching = in_session(A, B)
    fetching.hold({B})
    assert following(fetching).forgotten == [B]
    fetching.put(B, at(1))
    assert asked(following(fetching)) == []
    fetching.hold(set())
    assert asked(following(fetching)) == [B]


def test_with_everything_at_rest_nothing_is_asked() -> None:
    fetching = in_session(A)
    fetching.put_off(A, 100)
    assert following(fetching).forgotten == [A]
    assert fetching.next(50) is None
    fetching.failed()
    assert fetching.next(50) is None


def test_a_lost_session_is_begun_anew_with_all_that_is_fetched() -> None:
    for error in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
        fetching = in_session(A, B, C)
        fetching.put_off(C, 1_000)
        ask = fetching.next(0)
        assert ask is not None
        assert not fetching.answered(ask, error, 0)
        again = fetching.next(0)
        assert again is not None
        assert (again.epoch, sorted(asked(again)), again.full) == (0, [A, B], True)
        assert again.session_id == (0 if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 77)


def test_a_leader_without_room_for_a_session_is_asked_in_full_each_time() -> None:
    fetching = Fetching()
    fetching.put(A, at(0))
    for _ in range(2):
        ask = fetching.next(0)
        assert ask is not None
        assert (ask.session_id, ask.epoch, asked(ask)) == (0, 0, [A])
        assert fetching.answered(ask, ErrorCode.NONE, 0)
