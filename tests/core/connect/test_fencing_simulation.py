"""Generations of tasks that come, dawdle and come back from the dead, under leaders that do too; one seed, one world.

- Once a task of one generation has begun, no task of an older one gets a record through.
- Where the dead stay dead, the newest generation comes to write.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random

import pytest

from barnabas.core.connect.config_records import (
    connector_config_record,
    task_commit_record,
    task_config_records,
    task_count_record,
)
from barnabas.core.connect.config_state import EMPTY_CONFIG, ClusterConfigState, replay_config
from barnabas.core.connect.exactly_once import task_transactional_id, transactional_ids
from barnabas.core.connect.fencing import fencing_due, is_overtaken, refusal
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.records import Record

GROUP, NAME = "g", "x"
Life = Generator[None, None, None]


class FencedError(Exception):
    """Somebody else has the transactional id by now."""


@dataclass
class World:
    """The brokers as far as they matter: the config topic, and who has each transactional id."""

    random: Random
    topic: list[Record] = field(default_factory=list)
    state: ClusterConfigState = EMPTY_CONFIG
    epochs: dict[str, int] = field(default_factory=dict)
    begun: int = -1
    written: dict[int, int] = field(default_factory=dict)

    def init(self, transactional_id: str) -> int:
        self.epochs[transactional_id] = epoch = self.epochs.get(transactional_id, -1) + 1
        return epoch

    def check(self, transactional_id: str, epoch: int) -> None:
        if self.epochs[transactional_id] != epoch:
            raise FencedError(transactional_id)

    def read(self) -> ClusterConfigState:
        for record in self.topic[max(self.state.offset, 0) :]:
            self.state = replay_config(self.state, record.key, record.value, max(self.state.offset, 0)).state
        return self.state

    def write(self, generation: int) -> None:
        assert generation >= self.begun, f"a task of generation {generation} wrote after one of {self.begun} had begun"
        self.written[generation] = self.written.get(generation, 0) + 1


@dataclass(eq=False)
class Leader:
    """One that was elected; it may not know that another one was since."""

    world: World
    epoch: int = -1

    def __post_init__(self) -> None:
        self.epoch = self.world.init("leader")

    def write(self, *records: Record) -> None:
        self.world.check("leader", self.epoch)
        self.world.topic += records

    def plan(self, tasks: int) -> None:
        configs = [{"n": str(n)} for n in range(tasks)]
        self.write(*task_config_records(NAME, configs), task_commit_record(NAME, tasks))

    def fence(self) -> Generator[None, None, bool]:
        """Do a round; say whether it came off."""
        due = fencing_due(self.world.read(), NAME)
        yield
        if due is None:
            return True
        for transactional_id in transactional_ids(GROUP, NAME, due.fenced):
            self.world.init(transactional_id)
            yield
        if is_overtaken(due, self.world.read()):
            return False
        self.write(task_count_record(NAME, due.recorded))
        return True


def task(world: World, leader: Callable[[], Leader], number: int, writes: int, generation: int) -> Life:
    """One start of a task of a generation."""
    task_id = ConnectorTaskId(NAME, number)
    if not (yield from leader().fence()):
        return
    transactional_id = task_transactional_id(GROUP, task_id)
    epoch = world.init(transactional_id)
    yield
    if refusal(task_id, generation, world.read(), {task_id}) is not None:
        return
    world.begun = max(world.begun, generation)
    for _ in range(writes):
        yield
        world.check(transactional_id, epoch)
        world.write(generation)


def simulate(seed: int, steps: int = 300) -> World:
    """Give a world after some time, and after the newest generation was left alone."""
    random = Random(seed)
    world = World(random)
    leaders = [Leader(world)]
    world.topic.append(connector_config_record(NAME, {"name": NAME}))
    leaders[-1].plan(random.randint(1, 3))
    lives: list[Life] = []
    for _ in range(steps):
        match random.randrange(12):
            case 0:
                leaders.append(Leader(world))
            case 1:
                _quietly(lambda: random.choice(leaders[-2:]).plan(random.randint(0, 3)))
            case 2 | 3:
                if count := world.read().task_count(NAME):
                    lives.append(_launched(world, lambda: random.choice(leaders[-2:]), random.randrange(count)))
            case _:
                if lives:
                    _step(lives, random.choice(lives))
    leaders[-1].plan(2)
    for number in range(2):
        last = [_launched(world, lambda: leaders[-1], number)]
        while last:
            _step(last, last[0])
    return world


def _launched(world: World, leader: Callable[[], Leader], number: int) -> Life:
    return task(world, leader, number, world.random.randint(1, 20), world.read().task_generation(NAME))


def _step(lives: list[Life], life: Life) -> None:
    try:
        next(life)
    except (StopIteration, FencedError):
        lives.remove(life)


def _quietly(what: Callable[[], None]) -> None:
    try:
        what()
    except FencedError:
        pass


@pytest.mark.sim
def test_no_generation_writes_once_a_newer_one_has_begun(sim_seed: int) -> None:
    for turn in range(10):
        world = simulate(sim_seed * 10 + turn)
        newest = world.read().task_generation(NAME)
        assert world.written[newest] >= 2
        assert newest > 0


@pytest.mark.sim
@pytest.mark.parametrize("fault", ["nobody is shut out", "tasks do not look once more", "stale rounds are recorded"])
def test_the_simulation_finds_what_would_be_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the three is needed: without it some world sees a record of an older generation."""
    here = __name__
    if fault == "nobody is shut out":
        monkeypatch.setattr(f"{here}.transactional_ids", lambda *_: [])
    elif fault == "tasks do not look once more":
        monkeypatch.setattr(f"{here}.refusal", lambda *_: None)
    else:
        monkeypatch.setattr(f"{here}.is_overtaken", lambda *_: False)
    with pytest.raises(AssertionError, match="wrote after one of"):
        _simulate_many(2_000)


def _simulate_many(count: int) -> None:
    for seed in range(count):
        simulate(seed)
