"""From what was seen to a verdict in plain words. No clock, no files: the same observation gives the same verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from statistics import median
from typing import Final

from barnabas.reauth.observation import Observation, Records
from barnabas.testing.session_events import Kind, SessionEvent

SPINNING_TRIES: Final = 20
SPINNING_PAUSE_MS: Final = 20
"""So many tries after a refusal, with less than this between a refusal and the next connection most times, are a client
that does not wait: a busy machine may have let it wait now and then."""
RENEWALS_FOR_A_LATE_ONE: Final = 3
"""So many renewals in time excuse one that came too late: on a busy machine no client is punctual."""
_SPOKEN: Final = re.compile(r"authent|sasl|password|credential", re.IGNORECASE)


class Outcome(StrEnum):
    """How the client did."""

    GOOD = auto()
    GETS_BY = auto()
    """It does not re-authenticate, but it goes on and loses nothing."""
    BAD = auto()
    UNKNOWN = auto()
    """It was not seen doing anything that could be judged."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """words: one sentence for people, that ends without a full stop."""

    outcome: Outcome
    words: str


Judge = Callable[[Observation], Verdict]


def renewals(seen: Observation) -> Verdict:
    """Judge a client whose sessions ended, several times."""
    early = _never_began(seen) or _ended_early(seen)
    if early is not None:
        return early
    done, cut, refused = seen.count(Kind.RENEWED), seen.count(Kind.CUT_OFF), _refusals(seen)
    records = _of_records(seen)
    if refused:
        return Verdict(Outcome.BAD, f"its re-authentication was refused: {refused[0].detail}; {records}")
    if not done and not cut:
        return Verdict(
            Outcome.UNKNOWN, "used no connection beyond the end of its session, so there is nothing to judge"
        )
    if not done:
        again = seen.count(Kind.LOGGED_IN)
        told = "" if any(one.knows for one in seen.connections) else ", and logs in by requests that tell it of no end"
        words = (
            f"never re-authenticates{told}: {_many(cut, 'connection was', 'connections were')} closed at the end of "
        )
        words += f"the session, of {again} opened; {records}"
        return Verdict(_with_records(Outcome.GETS_BY, seen), words)
    on = sum(one.renewals > 0 for one in seen.connections)
    words = f"re-authenticated {_many(done, 'time', 'times')} on {_many(on, 'connection', 'connections')}"
    if not cut:
        return Verdict(_with_records(Outcome.GOOD, seen), f"{words}, none was cut; {records}")
    if done >= RENEWALS_FOR_A_LATE_ONE * cut:
        words += f"; {cut} came too late (a busy machine, or renewals planned too near to the end); {records}"
        return Verdict(_with_records(Outcome.GOOD, seen), words)
    words += f", but {_many(cut, 'connection was', 'connections were')} closed at the end of the session; {records}"
    return Verdict(_with_records(Outcome.GETS_BY, seen), words)


def cut_in_traffic(seen: Observation) -> Verdict:
    """Judge a client one of whose sessions was ended by hand, which it could not know."""
    early = _never_began(seen) or _ended_early(seen) or _not_acted(seen)
    if early is not None:
        return early
    records = _of_records(seen)
    kinds = [event.kind for event in seen.after]
    if Kind.CUT_OFF not in kinds and Kind.RENEWED not in kinds:
        return Verdict(Outcome.UNKNOWN, "did not use the connection again, so there is nothing to judge")
    if not seen.grown:
        return Verdict(Outcome.BAD, f"stopped when its connection was closed in the middle of traffic; {records}")
    how = "renewed its session" if Kind.RENEWED in kinds and Kind.CUT_OFF not in kinds else "opened another connection"
    words = f"{how} when its session was ended in the middle of traffic, and went on; {records}"
    return Verdict(_with_records(Outcome.GOOD, seen), words)


def wrong_password(seen: Observation) -> Verdict:
    """Judge a client whose password was changed under it."""
    early = _never_began(seen) or _ended_before_act(seen) or _not_acted(seen)
    if early is not None:
        return early
    refused = [e for e in seen.after if e.kind in (Kind.REFUSED, Kind.RENEWAL_REFUSED)]
    if not refused:
        what = "ended" if seen.exit_code is not None else "did not try to log in again"
        return Verdict(Outcome.UNKNOWN, f"{what} before its new password was asked for, so there is nothing to judge")
    first = refused[0]
    where = "when it re-authenticated" if first.kind is Kind.RENEWAL_REFUSED else "when it logged in anew"
    then, outcome = _after_refusal(seen, first)
    if outcome is Outcome.GOOD and first.kind is Kind.REFUSED:
        outcome = Outcome.GETS_BY
    return Verdict(outcome, f"was refused {where}, {then}")


def other_principal(seen: Observation) -> Verdict:
    """Judge a client that the node takes for somebody else when it re-authenticates."""
    early = _never_began(seen) or _ended_before_act(seen) or _not_acted(seen)
    if early is not None:
        return early
    records = _of_records(seen)
    refused = next((e for e in seen.after if e.kind is Kind.RENEWAL_REFUSED), None)
    anew = [e for e in seen.after if e.kind is Kind.LOGGED_IN]
    if refused is None:
        if not anew:
            return Verdict(Outcome.UNKNOWN, "did not log in again, so there is nothing to judge")
        words = f"never re-authenticates: it was cut off and is {anew[0].principal} on its next connection; {records}"
        return Verdict(_with_records(Outcome.GETS_BY, seen), words)
    if anew and seen.exit_code is None and seen.grown:
        words = f"was refused, and went on as {anew[-1].principal} on another connection; {records}"
        return Verdict(_with_records(Outcome.GOOD, seen), words)
    then, outcome = _after_refusal(seen, refused)
    return Verdict(_with_records(outcome, seen), f"was refused, {then}; {records}")


# --- what several judges say


def _after_refusal(seen: Observation, refusal: SessionEvent) -> tuple[str, Outcome]:
    """Say what the client did after a login was refused: it should give up, or try again now and then, and say so."""
    tries = sum(e.kind is Kind.TRIED and e.at_ms > refusal.at_ms for e in seen.events)
    seconds = f"{seen.watched_ms / 1000:.0f} s"
    pause_ms = _pause_ms(seen.events)
    if tries >= SPINNING_TRIES and pause_ms < SPINNING_PAUSE_MS:
        return (
            f"and then tried {tries} times in {seconds}, {pause_ms:.0f} ms after each refusal: it does not wait",
            Outcome.BAD,
        )
    if seen.exit_code is not None:
        if seen.exit_code == 0:
            return "and ended as if all had been well (exit code 0)", Outcome.BAD
        return f"and gave up (exit code {seen.exit_code})", Outcome.GOOD
    if tries:
        return f"and tried again {_many(tries, 'time', 'times')} in {seconds}", Outcome.GOOD
    if _SPOKEN.search(seen.output):
        return "said so, and waits", Outcome.GOOD
    return "and then hung: it neither ended, nor tried again, nor said a word about it", Outcome.BAD


def _pause_ms(events: Sequence[SessionEvent]) -> float:
    """Give how long after a refusal the client connects again, half of the times at most; 0 when it never did."""
    refused_at: int | None = None
    pauses: list[int] = []
    for event in events:
        if event.kind in (Kind.REFUSED, Kind.RENEWAL_REFUSED):
            refused_at = event.at_ms
        elif event.kind is Kind.OPENED and refused_at is not None:
            pauses.append(event.at_ms - refused_at)
            refused_at = None
    return median(pauses) if pauses else 0


def _never_began(seen: Observation) -> Verdict | None:
    if seen.connections:
        return None
    refused = [event.detail for event in seen.events if event.kind is Kind.REFUSED]
    why = f": {refused[0]}" if refused else ""
    ended = "" if seen.exit_code is None else f", and ended with exit code {seen.exit_code}"
    return Verdict(Outcome.BAD, f"never logged in{why}{ended}{_last_words(seen)}")


def _ended_early(seen: Observation) -> Verdict | None:
    if seen.exit_code is None:
        return None
    refused = _refusals(seen)
    why = f"; its re-authentication was refused: {refused[0].detail}" if refused else _last_words(seen)
    words = f"ended by itself with exit code {seen.exit_code} while it was watched, after "
    words += f"{_many(seen.count(Kind.RENEWED), 'renewal', 'renewals')} and {seen.count(Kind.CUT_OFF)} cut"
    return Verdict(Outcome.BAD, words + why)


def _ended_before_act(seen: Observation) -> Verdict | None:
    return _ended_early(seen) if seen.acted_at_ms is None else None


def _not_acted(seen: Observation) -> Verdict | None:
    if seen.acted_at_ms is not None:
        return None
    return Verdict(Outcome.UNKNOWN, f"made too few requests ({seen.requests}) for anything to be tried")


def _refusals(seen: Observation) -> list[SessionEvent]:
    return [event for event in seen.events if event.kind is Kind.RENEWAL_REFUSED]


def _with_records(outcome: Outcome, seen: Observation) -> Outcome:
    return Outcome.BAD if seen.records.lost and not seen.exit_code else outcome


def _of_records(seen: Observation) -> str:
    return of_records(seen.records, ended=bool(seen.exit_code))


def of_records(records: Records, *, ended: bool = False) -> str:
    """Say what became of the records. ended: the client gave up, so that what is missing it may have told of."""
    if not records.total:
        return "no record was written"
    if not records.numbered:
        return "whether records were lost cannot be told, as they are not numbered"
    twice = f", {_many(records.twice, 'record came', 'records came')} twice" if records.twice else ""
    if records.lost and ended:
        return f"{_many(records.lost, 'record was', 'records were')} still to be written when it ended{twice}"
    if records.lost:
        return (
            f"{_many(records.lost, 'record', 'records')} of {records.total + records.lost - records.twice} lost{twice}"
        )
    return f"no record was lost{twice}"


def _last_words(seen: Observation) -> str:
    return last_words(seen.output)


def last_words(output: str) -> str:
    """Give the last line that a client printed, to be appended to a sentence; nothing if it printed none."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return f"; it last said: {lines[-1].strip()[:200]}" if lines else ""


def _many(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
