"""What is asked of any simulated life of groups, whichever protocols they speak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

EVENTS: Final = 300
SEEDS: Final = 6


class Life(Protocol):
    """A shard, its members and what goes wrong between them, from a seed; an AssertionError is a promise broken."""

    @property
    def records(self) -> Sequence[object]:
        """All that was written."""
        ...

    def event(self) -> None:
        """Let something happen."""
        ...

    def come_to_rest(self) -> None:
        """Let nothing go wrong any more until the groups have settled."""
        ...


def mistakes_found(life_of: Callable[[int], Life]) -> bool:
    """Say whether one of the lives breaks a promise, as it must when a mistake was planted."""
    for seed in range(SEEDS):
        life = life_of(seed)
        try:
            for _ in range(EVENTS):
                life.event()
            life.come_to_rest()
        except AssertionError:
            return True
    return False


def is_repeatable(life_of: Callable[[int], Life], seed: int) -> bool:
    """Say whether the same seed gives the same life."""
    lives = []
    for _ in range(2):
        life = life_of(seed)
        for _ in range(EVENTS):
            life.event()
        lives.append(life.records)
    return lives[0] == lives[1]
