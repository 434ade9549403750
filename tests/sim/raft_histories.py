"""One history of a simulated quorum: a seed decides the world, who makes its life hard, and everything that happens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from .raft_nemeses import Chaos, DisputedVoters, FickleLeaders, Nemesis
from .raft_world import Shape, World

QUICK_SEEDS = 20
"""The first seeds belong to `make check` and must be quick."""


def shape_of(rng: Random) -> Shape:
    """Choose what the world is like."""
    dynamic = rng.randrange(4) > 0
    return Shape(
        voters=rng.choice((1, 2, 3, 3, 3, 4, 5)),
        others=rng.randrange(3) if dynamic else 0,
        brokers=rng.randrange(2),
        kraft_version=1 if dynamic else 0,
        auto_join=rng.randrange(3) == 0,
        loss=rng.choice((0, 2, 10)),
        duplicates=rng.choice((0, 5)),
        old_peers=rng.randrange(4) == 0,
        max_delay_ms=rng.choice((5, 40, 300)),
        max_write_ms=rng.choice((0, 5, 40)),
        fetch_max_bytes=rng.choice((1, 400, 400)),
    )


def nemesis_for(rng: Random, shape: Shape) -> tuple[type[Nemesis], Shape]:
    """Choose who makes its life hard; where one needs a world of some kind, the world is of that kind."""
    nemesis: type[Nemesis] = rng.choice((Chaos, Chaos, FickleLeaders, DisputedVoters))
    if nemesis is FickleLeaders:
        voters, delay_ms = rng.choice((3, 3, 3, 4, 5)), rng.choice((5, 20))
        # Impatient, so that there are many leaders.
        shape = replace(
            shape,
            voters=voters,
            fetch_max_bytes=rng.choice((1, 1, 400)),
            loss=min(shape.loss, 2),
            max_delay_ms=delay_ms,
            max_write_ms=5,
            patience_ms=10 * delay_ms,
        )
    elif nemesis is DisputedVoters:
        voters = rng.choice((2, 3, 4, 4))
        shape = replace(shape, voters=voters, others=rng.choice((1, 2)), kraft_version=1, auto_join=False)
    return nemesis, shape


def run_history(seed: int) -> None:
    """Run a history, then heal everything: the quorum must recover and take another write."""
    rng = Random(seed)
    nemesis, shape = nemesis_for(rng, shape_of(rng))
    world = World(seed, shape)
    # As many seconds; fewer where everything goes on faster.
    length = 5 if seed < QUICK_SEEDS else rng.choice((7, 15, 40))
    until = length * min(1000, 10 * shape.patience_ms)
    nemesis(world, until)
    world.run_until(until)
    heal(world)
    assert world.run_until_true(lambda: is_settled(world), 30_000), f"no recovery: {nemesis.__name__}, {shape}"
    before = world.oracle.end
    world.propose(b"after all")
    assert world.run_until_true(lambda: is_settled(world) and world.oracle.end > before, 5_000)


def run_histories(seeds: Iterable[int]) -> None:
    """Run one after the other, up to the first that goes wrong."""
    for seed in seeds:
        run_history(seed)


def heal(world: World) -> None:
    """End every fault."""
    world.blocked.clear()
    world.faults = False
    for host in world.hosts.values():
        host.paused_until = min(host.paused_until, world.now)
        if host.node is None:
            world.start(host)


def is_settled(world: World) -> bool:
    """Say whether everybody has everything, and knows that it is committed."""
    leaders = world.leaders()
    if not leaders:
        return False
    leader = leaders[0][1]
    return all(
        node.high_watermark == leader.high_watermark == leader.log_end_offset == node.log_end_offset
        for _, node in world.running()
    )
