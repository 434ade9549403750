"""Only what has changed: members keep their work while the leader moves as little as it can (KIP-415).

Subprotocols `compatible` and `sessioned`. A round of assignment is a function of what the leader remembers of the
last one, of what there is to do, of what the members say that they have, and of the time:

- new work goes to those who have the least;
- the work of a member that left waits for its return, `scheduled.rebalance.max.delay.ms` at most; members that joined
  meanwhile get it first;
- where shares are uneven, units are revoked and given out in the next round. Rounds of revocation in succession are
  held back for 40 ms, 1.6 s, 64 s, ... up to that delay (KAFKA-12495).

With the same member order it comes to what the JVM's IncrementalCooperativeAssignor comes to, with one exception: work
that is no longer configured is revoked by a new leader at once, not only in its second round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from barnabas.core.connect.assignment import balance
from barnabas.core.connect.assignment.work import (
    Capable,
    Shares,
    Unit,
    connector_of,
    connectors_of,
    in_order,
    tasks_of,
)

_MULTIPLIER: Final = 40


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader remembers from one round to the next; `NO_MEMORY` when it begins to lead.

    generation, members: of the last round; work: all that was out then, what was lost included; revoked: what was to
    be given up; revoked_lately, successive: rounds that evened out, and how many tried to without a rest. candidates:
    members without work while a delay runs; scheduled_ms: when it ends, 0 for none; delay_ms: what is left of it.
    """

    generation: int = -1
    members: frozenset[str] = frozenset()
    work: frozenset[Unit] = frozenset()
    revoked: frozenset[Unit] = frozenset()
    revoked_lately: bool = False
    successive: int = 0
    candidates: tuple[str, ...] = ()
    scheduled_ms: int = 0
    delay_ms: int = 0

    def rested(self) -> Memory:
        """Give the same without a delay."""
        return replace(self, candidates=(), scheduled_ms=0, delay_ms=0)


NO_MEMORY: Final = Memory()


class Round(NamedTuple):
    """generation: that is being assigned; last_generation: the last one that this worker saw complete, -1 for none.

    now_ms: of any clock that goes on with the leader. max_delay_ms: `scheduled.rebalance.max.delay.ms`.
    """

    generation: int
    last_generation: int
    now_ms: int
    max_delay_ms: int
    capable: Capable | None = None


def share_out(
    memory: Memory, work: Iterable[Unit], members: Mapping[str, Iterable[Unit]], this: Round
) -> tuple[Memory, Shares]:
    """Give what everybody begins and gives up, and what to remember of it.

    work: all that is configured; members: what each says that it has.
    """
    held = {member: tuple(members[member]) for member in sorted(members)}
    counts = Counter(unit for units in held.values() for unit in units)
    wanted, active = frozenset(work), frozenset(counts)
    before = memory.work if memory.generation == this.last_generation else frozenset()
    if memory.revoked & active:
        before = active  # what was to be given up has not been
    deleted = (before | active) - wanted
    given_up = deleted | {unit for unit, count in counts.items() if count > 1}
    lost = before - active - deleted

    after = {member: [u for u in units if u not in given_up] for member, units in held.items()}
    memory, homeless = _lost(memory, lost, after, this)
    free = [*in_order(wanted - before - active), *in_order(homeless)]
    memory, moved = _even_out(memory, free, after, wanted, this)

    gone = {member: given_up.intersection(units).union(moved.get(member, ())) for member, units in held.items()}
    revoked = frozenset(unit for units in gone.values() for unit in units)
    memory = replace(
        memory,
        generation=this.generation,
        members=frozenset(held),
        work=frozenset(unit for units in after.values() for unit in units) - revoked | lost,
        revoked=revoked,
    )
    return memory, Shares(
        assigned={m: tuple(u for u in units if u not in held[m]) for m, units in after.items()},
        revoked={member: in_order(units) for member, units in gone.items()},
        owned={m: tuple(u for u in units if u not in gone[m]) for m, units in after.items()},
        delay_ms=memory.delay_ms,
    )


def _lost(
    memory: Memory, lost: frozenset[Unit], after: Mapping[str, list[Unit]], this: Round
) -> tuple[Memory, Iterable[Unit]]:
    """See to work that has gone with its worker: give what has no home any more, or let it wait.

    What goes to a member that joined while it waited is added to `after`.
    """
    if not lost and not memory.revoked_lately:
        return memory.rested(), ()
    if memory.scheduled_ms <= 0 and memory.members <= after.keys():
        return memory, lost  # nobody has left: an assignment did not arrive
    if this.max_delay_ms == 0:
        return memory, lost
    if 0 < memory.scheduled_ms <= this.now_ms:
        homeless = _to_candidates([m for m in memory.candidates if m in after], lost, after, this.capable)
        return replace(memory.rested(), revoked_lately=False), homeless
    idle = [member for member, units in after.items() if not units and member not in memory.candidates]
    left_ms = memory.scheduled_ms - this.now_ms
    delay_ms = min(left_ms, this.max_delay_ms) if left_ms > 0 else this.max_delay_ms
    return (
        replace(
            memory,
            candidates=(*memory.candidates, *idle),
            delay_ms=delay_ms,
            scheduled_ms=this.now_ms + delay_ms,
        ),
        (),
    )


def _to_candidates(
    candidates: list[str], lost: frozenset[Unit], after: Mapping[str, list[Unit]], capable: Capable | None
) -> list[Unit]:
    """Give lost work to the candidates in turn, those that can do it; give back what nobody of them can do."""
    homeless: list[Unit] = []
    for kind in (sorted(connectors_of(lost)), sorted(tasks_of(lost))):
        turn = 0
        for unit in kind:
            circle = [*candidates[turn:], *candidates[:turn]]
            taker = next((m for m in circle if capable is None or capable(m, connector_of(unit))), None)
            if taker is None:
                homeless.append(unit)
            else:
                after[taker].append(unit)
                turn = (candidates.index(taker) + 1) % len(candidates)
    return homeless


def _even_out(
    memory: Memory, free: list[Unit], after: Mapping[str, list[Unit]], wanted: frozenset[Unit], this: Round
) -> tuple[Memory, Mapping[str, Iterable[Unit]]]:
    """Add what is free to `after`, and take from it and give what is to move, where that may be now."""
    if memory.delay_ms:
        _place(free, after, this.capable)
        return replace(memory, revoked_lately=False), {}
    plan = _plan(free, after, wanted, this.capable)
    if plan.moved and memory.revoked_lately:
        successive = memory.successive + 1
        delay_ms = backoff_ms(successive, this.max_delay_ms)
        memory = replace(memory, successive=successive, delay_ms=delay_ms)
        if delay_ms:
            _place(free, after, this.capable)
            return replace(memory, scheduled_ms=this.now_ms + delay_ms), {}
    elif plan.moved:
        memory = replace(memory, revoked_lately=True)
    elif memory.revoked_lately:
        memory = replace(memory, revoked_lately=False, successive=0)
    for member, units in plan.moved.items():
        after[member][:] = [unit for unit in after[member] if unit not in units]
    if this.capable is None:
        _place(free, after, None)
    for unit, member in plan.placed.items():
        after[member].append(unit)
    return memory, plan.moved


def backoff_ms(successive: int, max_delay_ms: int) -> int:
    """Give how long evening out waits after so many rounds of it in succession: 40 ms, then 40 times as long."""
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(float(successive), math.log(max_delay_ms) / math.log(_MULTIPLIER))
    return min(int(math.pow(_MULTIPLIER, exponent)), max_delay_ms)


def _plan(
    free: list[Unit], after: Mapping[str, list[Unit]], wanted: frozenset[Unit], capable: Capable | None
) -> balance.Plan[Unit]:
    """Give what has to move for even shares, connectors and tasks each for themselves.

    With `capable`, also where what is free goes: it must fit in with what moves.
    """
    placed: dict[Unit, str] = {}
    moved: dict[str, tuple[Unit, ...]] = {}
    for kind in _KINDS:
        held = {member: kind(units) for member, units in after.items()}
        if capable is not None:
            part = balance.plan(kind(free), held, _eligible(after, capable))
            placed |= part.placed
            more = part.moved
        else:
            more = _surplus(len(kind(wanted)), held) if any(after.values()) and wanted else {}
        for member, units in more.items():
            moved[member] = (*moved.get(member, ()), *units)
    return balance.Plan(placed, moved)


def _surplus(total: int, held: Mapping[str, tuple[Unit, ...]]) -> dict[str, tuple[Unit, ...]]:
    """Give what members have beyond an even share of `total` units, the first ones that they name."""
    least, extras = divmod(total, len(held))
    sizes = Counter(len(units) for units in held.values())
    if sizes[least + 1] == extras and sizes[least] + sizes[least + 1] == len(held):
        return {}
    out: dict[str, tuple[Unit, ...]] = {}
    for member, units in held.items():
        if len(units) > least:
            most = least + (extras > 0)
            extras -= extras > 0
            if len(units) > most:
                out[member] = units[: len(units) - most]
    return out


def _place(free: Iterable[Unit], after: Mapping[str, list[Unit]], capable: Capable | None) -> None:
    """Add units to those who have the least of their kind."""
    free = list(free)
    for kind in _KINDS:
        held = {member: len(kind(units)) for member, units in after.items()}
        for unit, member in balance.place(kind(free), held, _eligible(after, capable)).items():
            after[member].append(unit)


def _eligible(members: Iterable[str], capable: Capable | None) -> balance.Eligible[Unit]:
    everybody = frozenset(members)
    known: dict[str, frozenset[str]] = {}

    def eligible(unit: Unit) -> frozenset[str]:
        connector = connector_of(unit)
        if capable is None:
            return everybody
        if connector not in known:
            known[connector] = frozenset(m for m in everybody if capable(m, connector)) or everybody
        return known[connector]

    return eligible


_KINDS: Final[tuple[Callable[[Iterable[Unit]], tuple[Unit, ...]], ...]] = (connectors_of, tasks_of)
