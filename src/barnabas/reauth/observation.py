"""What was seen of a client in one scenario. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.testing.session_events import Kind, SeenConnection, SessionEvent, connections, count


@dataclass(frozen=True, slots=True)
class Records:
    """What lies in the topic. numbered: every value is a decimal number, so that gaps and repetitions can be seen.

    largest: of the numbers. lost: those that are missing below it; twice: how many came again.
    """

    total: int
    numbered: bool = False
    largest: int = 0
    lost: int = 0
    twice: int = 0

    @classmethod
    def of(cls, values: Sequence[bytes | None], up_to: int | None = None) -> Records:
        """Give what can be said of these values. up_to: the largest number whose absence counts, as later ones may
        still be on their way."""
        if not values or not all(value is not None and value.isdigit() for value in values):
            return cls(len(values))
        numbers = Counter(int(value) for value in values if value is not None)
        largest = max(numbers)
        last = largest if up_to is None else min(up_to, largest)
        lost = max(0, last + 1 - min(numbers)) - sum(number <= last for number in numbers)
        return cls(len(values), True, largest, lost, len(values) - len(numbers))


@dataclass(frozen=True, slots=True)
class Observation:
    """events: of the client's sessions. exit_code: None when the command ran until it was ended by us.

    output: what the command printed. acted_at_ms: when the scenario did its one thing (another password, another
    principal, a session ended by hand), on the clock of events; None when it did not come to that. grown: records
    that came after it. watched_ms: for how long the client was watched after its first login, or since the act.
    """

    events: tuple[SessionEvent, ...]
    records: Records
    requests: int = 0
    exit_code: int | None = None
    output: str = ""
    acted_at_ms: int | None = None
    grown: int = 0
    watched_ms: int = 0

    @property
    def connections(self) -> list[SeenConnection]:
        """Give the connections on which somebody logged in, oldest first."""
        return [one for one in connections(self.events) if one.sessions]

    @property
    def after(self) -> tuple[SessionEvent, ...]:
        """Give the events since the scenario's act."""
        return tuple(e for e in self.events if self.acted_at_ms is not None and e.at_ms >= self.acted_at_ms)

    def count(self, *kinds: Kind) -> int:
        """Give how many events of these kinds there were."""
        return count(self.events, *kinds)
