"""From events to words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from barnabas.reauth import verdict
from barnabas.reauth.observation import Observation, Records
from barnabas.reauth.verdict import Outcome
from barnabas.testing.session_events import Kind, SessionEvent, connections

K = Kind
LOGIN = (K.OPENED, K.TRIED, K.LOGGED_IN)
RENEWAL = (K.TRIED, K.RENEWED)
ALL = Records(9, True, 8)


def events(*kinds: Kind, name: str = "a", since: int = 0, detail: str = "", knows: bool = True) -> list[SessionEvent]:
    return [
        SessionEvent(since + n, name, kind, "User:tester", detail=detail, knows=knows) for n, kind in enumerate(kinds)
    ]


def seen(happened: Sequence[SessionEvent], **more: Any) -> Observation:
    return Observation(tuple(happened), **{"records": ALL, **more})


@pytest.mark.parametrize(
    ("observation", "outcome", "words"),
    [
        (
            seen(events(*LOGIN, *RENEWAL, *RENEWAL) + events(*LOGIN, *RENEWAL, name="b")),
            Outcome.GOOD,
            "re-authenticated 3 times on 2 connections, none was cut; no record was lost",
        ),
        (
            seen(events(*LOGIN, *RENEWAL, *RENEWAL, *RENEWAL, K.CUT_OFF)),
            Outcome.GOOD,
            "re-authenticated 3 times on 1 connection; 1 came too late (a busy machine, or renewals planned too near "
            "to the end); no record was lost",
        ),
        (
            seen(events(*LOGIN, *RENEWAL, K.CUT_OFF)),
            Outcome.GETS_BY,
            "re-authenticated 1 time on 1 connection, but 1 connection was closed at the end of the session; no record "
            "was lost",
        ),
        (
            seen(events(*LOGIN, K.CUT_OFF, knows=False) + events(*LOGIN, name="b", knows=False)),
            Outcome.GETS_BY,
            "never re-authenticates, and logs in by requests that tell it of no end: 1 connection was closed at the "
            "end of the session, of 2 opened; no record was lost",
        ),
        (
            seen(events(*LOGIN, *RENEWAL, *RENEWAL), records=Records(9, True, 9, lost=1, twice=0)),
            Outcome.BAD,
            "re-authenticated 2 times on 1 connection, none was cut; 1 record of 10 lost",
        ),
        (
            seen(events(*LOGIN, K.TRIED) + events(K.RENEWAL_REFUSED, detail="Metadata in between")),
            Outcome.BAD,
            "its re-authentication was refused: Metadata in between; no record was lost",
        ),
        (
            seen(events(*LOGIN)),
            Outcome.UNKNOWN,
            "used no connection beyond the end of its session, so there is nothing to judge",
        ),
        (
            seen(events(*LOGIN, K.CUT_OFF), exit_code=2, output="oh\nno\n"),
            Outcome.BAD,
            "ended by itself with exit code 2 while it was watched, after 0 renewals and 1 cut; it last said: no",
        ),
        (seen(events(K.OPENED)), Outcome.BAD, "never logged in"),
    ],
)
def test_renewals(observation: Observation, outcome: Outcome, words: str) -> None:
    found = verdict.renewals(observation)
    assert (found.outcome, found.words) == (outcome, words)


def refused(*after: Kind, pause_ms: int = 100, **more: Any) -> Observation:
    """Give a client whose renewal was refused at 10 ms, and which then tries again as often as said."""
    happened = events(*LOGIN) + events(K.RENEWAL_REFUSED, K.ENDED, since=10)
    for n, kind in enumerate(after):
        happened += events(K.OPENED, K.TRIED, kind, name=f"again-{n}", since=10 + (n + 1) * pause_ms)
    return seen(happened, acted_at_ms=5, watched_ms=2000, **more)


@pytest.mark.parametrize(
    ("observation", "outcome", "words"),
    [
        (refused(exit_code=1), Outcome.GOOD, "and gave up (exit code 1)"),
        (refused(exit_code=0), Outcome.BAD, "and ended as if all had been well (exit code 0)"),
        (refused(*[K.REFUSED] * 30), Outcome.GOOD, "and tried again 30 times in 2 s"),
        (
            refused(*[K.REFUSED] * 30, pause_ms=10),
            Outcome.BAD,
            "and then tried 30 times in 2 s, 8 ms after each refusal",
        ),
        (refused(output="SASL authentication error"), Outcome.GOOD, "said so, and waits"),
        (refused(output="connecting"), Outcome.BAD, "and then hung"),
    ],
)
def test_another_password(observation: Observation, outcome: Outcome, words: str) -> None:
    found = verdict.wrong_password(observation)
    assert found.words.startswith(f"was refused when it re-authenticated, {words}")
    assert found.outcome is outcome


def test_a_machine_that_stands_still_once_hides_no_spinning() -> None:
    happened = list(refused(*[K.REFUSED] * 30, pause_ms=10).events)
    late = [replace(event, at_ms=event.at_ms + 1000) for event in happened[-6:]]
    found = verdict.wrong_password(seen(happened[:-6] + late, acted_at_ms=5, watched_ms=2000))
    assert found.outcome is Outcome.BAD
    assert "it does not wait" in found.words


def test_a_client_that_logs_in_anew_gets_by() -> None:
    happened = events(*LOGIN, K.CUT_OFF) + events(K.OPENED, K.TRIED, K.REFUSED, name="b", since=10)
    found = verdict.wrong_password(seen(happened, acted_at_ms=3, exit_code=1))
    assert (found.outcome, found.words) == (
        Outcome.GETS_BY,
        "was refused when it logged in anew, and gave up (exit code 1)",
    )


@pytest.mark.parametrize("judge", [verdict.cut_in_traffic, verdict.wrong_password, verdict.other_principal])
def test_what_was_not_tried_is_not_judged(judge: verdict.Judge) -> None:
    found = judge(seen(events(*LOGIN), requests=3))
    assert (found.outcome, found.words) == (Outcome.UNKNOWN, "made too few requests (3) for anything to be tried")


def test_a_cut_in_traffic() -> None:
    happened = events(*LOGIN) + events(K.CUT_OFF, since=10) + events(*LOGIN, name="b", since=20)
    assert verdict.cut_in_traffic(seen(happened, acted_at_ms=5, grown=3)).outcome is Outcome.GOOD
    stopped = verdict.cut_in_traffic(seen(happened, acted_at_ms=5))
    assert stopped.words == "stopped when its connection was closed in the middle of traffic; no record was lost"
    assert verdict.cut_in_traffic(seen(events(*LOGIN), acted_at_ms=5)).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("values", "up_to", "wanted"),
    [
        ([], None, Records(0)),
        ([b"a", b"1"], None, Records(2)),
        ([b"1", None], None, Records(2)),
        ([b"0", b"1", b"2"], None, Records(3, True, 2)),
        ([b"2", b"0", b"2", b"5"], None, Records(4, True, 5, lost=3, twice=1)),
        ([b"2", b"0", b"2", b"5"], 2, Records(4, True, 5, lost=1, twice=1)),
    ],
)
def test_numbers(values: list[bytes | None], up_to: int | None, wanted: Records) -> None:
    assert Records.of(values, up_to) == wanted


def test_connections() -> None:
    (one,) = connections(events(*LOGIN, *RENEWAL, K.CUT_OFF, K.ENDED, detail="Produce"))
    assert (one.sessions, one.renewals, one.cut_off, one.ended, one.refused) == (2, 1, "Produce", True, None)
