"""A group of workers as an assignor sees it: members that come, go, miss their assignments, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from barnabas.core.connect.assignment.incremental import NO_MEMORY, Memory, Round, share_out
from barnabas.core.connect.assignment.work import Capable, Shares, Unit, in_order
from barnabas.core.connect.ids import ConnectorTaskId

MAX_DELAY_MS = 300_000
MOST_ROUNDS = 12
"""How many rebalances in succession are still none without end."""


@dataclass
class Group:
    """Members with what they have, connectors with how many tasks they have, and a leader's memory.

    on_round: sees each round before it takes effect: last generation, generation, what members have, and the shares.
    """

    max_delay_ms: int = MAX_DELAY_MS
    capable: Capable | None = None
    members: dict[str, tuple[Unit, ...]] = field(default_factory=dict)
    connectors: dict[str, int] = field(default_factory=dict)
    memory: Memory = NO_MEMORY
    generation: int = 0
    last_generation: int = -1
    now_ms: int = 1_000_000
    rejoin_ms: int = 0
    rounds: int = 0
    revoking_rounds: int = 0
    on_round: Callable[[Group, Mapping[str, Sequence[Unit]], Shares], None] | None = None

    @property
    def work(self) -> list[Unit]:
        """Give all that is configured."""
        return [
            *self.connectors,
            *(ConnectorTaskId(c, n) for c, count in self.connectors.items() for n in range(count)),
        ]

    def rebalance(self, missing: Sequence[str] = ()) -> None:
        """Assign until nobody has a reason to rejoin at once. missing: who gets nothing of the first answer."""
        rounds = 0
        while self._round(missing if not rounds else ()):
            rounds += 1
            assert rounds < MOST_ROUNDS, "rebalances without end"

    def settle(self) -> int:
        """Let delays pass, one after the other, until none is left; give how long that took, ms."""
        began = self.now_ms
        self.rebalance()
        waits = 0
        while self.rejoin_ms:
            self.now_ms = self.rejoin_ms
            self.rebalance()
            waits += 1
            assert waits < MOST_ROUNDS, "delays without end"
        return self.now_ms - began

    def new_leader(self) -> None:
        """Have somebody lead who remembers nothing."""
        self.memory = NO_MEMORY

    def _round(self, missing: Sequence[str]) -> bool:
        """Run one round; say whether somebody rejoins at once."""
        self.generation += 1
        self.rounds += 1
        held = dict(self.members)
        this = Round(self.generation, self.last_generation, self.now_ms, self.max_delay_ms, self.capable)
        self.memory, shares = share_out(self.memory, self.work, held, this)
        if self.on_round is not None:
            self.on_round(self, held, shares)
        for member, units in held.items():
            if member not in missing:
                kept = [unit for unit in units if unit not in shares.revoked[member]]
                self.members[member] = in_order(dict.fromkeys([*kept, *shares.assigned[member]]))
        self.last_generation = self.generation
        self.rejoin_ms = self.now_ms + shares.delay_ms if shares.delay_ms else 0
        revoked = any(shares.revoked[member] for member in held if member not in missing)
        self.revoking_rounds += revoked
        return revoked or bool(missing)


def shake(group: Group, what: str, chance: Random, newcomer: str) -> None:
    """Have something happen to a group: join, leave, create, delete, tasks (another number of them) or time."""
    match what:
        case "join":
            group.members[newcomer] = ()
        case "leave" if len(group.members) > 1:
            del group.members[chance.choice(sorted(group.members))]
        case "create":
            group.connectors[chance.choice("vwxyz")] = chance.randint(0, 8)
        case "delete" if group.connectors:
            del group.connectors[chance.choice(sorted(group.connectors))]
        case "tasks" if group.connectors:
            group.connectors[chance.choice(sorted(group.connectors))] = chance.randint(0, 8)
        case "time":
            group.now_ms += chance.choice([10, 500, 100_000, 400_000])
