"""What can be said of a client at somebody else's cluster, which tells nothing of its sessions. Values only.

A broker closes a connection that is used after the end of its session. So if a client has opened no connection for
longer than a session lasts, and its records still arrive, then the connection that brings them has been renewed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.reauth.observation import Records
from barnabas.reauth.verdict import Outcome, Verdict, last_words, of_records

MARGIN_MS: Final = 1000
"""How much longer than a session a connection must have brought records: looks are a moment apart."""

NO_RECORDS: Final = Records(0)


@dataclass(frozen=True, slots=True)
class Outside:
    """lifetime_ms: of a session, as the cluster told us at a login of our own, 0 for without end. opened_ms: when each
    connection to a broker was first seen; arrivals_ms: when more records were seen in the topic; both on one clock.
    exit_code: None when the client ran until it was ended by us. output: what it printed."""

    lifetime_ms: int
    opened_ms: Sequence[int] = ()
    arrivals_ms: Sequence[int] = ()
    watched_ms: int = 0
    records: Records = NO_RECORDS
    exit_code: int | None = None
    output: str = ""

    @property
    def outlived(self) -> bool:
        """Whether records came over a connection that is older than a session."""
        if not self.opened_ms or not self.arrivals_ms:
            return False
        return max(self.arrivals_ms) > max(self.opened_ms) + self.lifetime_ms + MARGIN_MS


def judge(seen: Outside) -> Verdict:
    """Judge by that alone."""
    if not seen.lifetime_ms:
        why = "connections.max.reauth.ms is 0 for this login"
        return Verdict(Outcome.UNKNOWN, f"has sessions without end here ({why}), so there is nothing to judge")
    if seen.exit_code is not None:
        words = f"ended by itself with exit code {seen.exit_code} while it was watched{last_words(seen.output)}"
        return Verdict(Outcome.BAD, words)
    if not seen.opened_ms:
        return Verdict(Outcome.UNKNOWN, "no connection of it to a broker was seen")
    if not seen.arrivals_ms:
        return Verdict(Outcome.UNKNOWN, "no record of it arrived, so there is nothing to judge")
    records = of_records(seen.records)
    life_s, count = seen.lifetime_ms / 1000, len(seen.opened_ms)
    if seen.outlived:
        quiet_s = (max(seen.arrivals_ms) - max(seen.opened_ms)) / 1000
        words = f"re-authenticates: its records arrived for {quiet_s:.1f} s without any new connection, and a session "
        words += f"lasts {life_s:g} s; {records}"
        return Verdict(Outcome.BAD if seen.records.lost else Outcome.GOOD, words)
    words = (
        f"opened {count} connections in {seen.watched_ms / 1000:.0f} s, and a session lasts {life_s:g} s: it does not "
    )
    words += f"re-authenticate, or loses its connections for another reason; {records}"
    return Verdict(Outcome.BAD if seen.records.lost else Outcome.GETS_BY, words)
