"""The Raft core under faults: every seed is another history. `make sim` runs thousands."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.ready import NotLeaderError

from .raft_world import Host, Shape, World

pytestmark = pytest.mark.sim


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
    )


class Chaos:
    """Does something bad, or asks for something, every so often."""

    def __init__(self, world: World, until: int) -> None:
        self.world = world
        self.rng = Random(world.rng.randrange(2**32))
        self.until = until
        self.wishes = 0
        self.world.at(500, self.wish)
        self.world.at(1000, self.harm)

    def wish(self) -> None:
        if self.world.now < self.until:
            self.wishes += 1
            self.world.propose(b"value %d" % self.wishes)
            self.world.at(self.rng.randrange(10, 250), self.wish)

    def harm(self) -> None:
        if self.world.now >= self.until:
            return
        host = self.rng.choice(list(self.world.hosts.values()))
        harms = (
            self.crash,
            self.crash,
            self.pause,
            self.cut_off,
            self.split,
            self.snapshot,
            self.snapshot,
            self.voters,
        )
        self.rng.choice(harms)(host)
        self.world.at(self.rng.randrange(100, 1200), self.harm)

    def crash(self, host: Host) -> None:
        if host.node is None:
            return
        self.world.crash(host)
        if not self.may_vote(host) and self.world.shape.kraft_version and self.rng.randrange(4) == 0:
            self.world.wipe(host)
        self.world.at(self.rng.randrange(1, 4000), lambda: self.world.start(host) if host.node is None else None)

    def may_vote(self, host: Host) -> bool:
        """Say whether any voter set there is, committed or not, has this host."""
        return host.node_id <= self.world.shape.voters or any(
            host.node_id in node.control.voters.last.value.node_ids for _, node in self.world.running()
        )

    def pause(self, host: Host) -> None:
        self.world.pause(host, self.rng.randrange(100, 5000))

    def cut_off(self, host: Host) -> None:
        others = [i for i in self.world.hosts if i != host.node_id]
        one_way = self.rng.randrange(3)
        cut = {(host.node_id, i) for i in others if one_way != 1} | {(i, host.node_id) for i in others if one_way != 2}
        self.block(cut)

    def split(self, host: Host) -> None:
        ids = list(self.world.hosts)
        side = {i for i in ids if self.rng.randrange(2)}
        self.block({(a, b) for a in ids for b in ids if (a in side) != (b in side)})

    def block(self, cut: set[tuple[int, int]]) -> None:
        self.world.blocked |= cut
        self.world.at(self.rng.randrange(500, 6000), lambda: self.world.blocked.difference_update(cut))

    def snapshot(self, host: Host) -> None:
        self.world.snapshot(host, trim=self.rng.randrange(3) > 0)

    def voters(self, host: Host) -> None:
        leaders = self.world.leaders()
        if not leaders or not host.can_vote:
            return
        node = leaders[0][1]
        voters = node.control.voters.last.value
        if node.control.kraft_version.last.value == 0:
            self.upgrade(leaders[0][0])
        elif voters.has(host.key):
            self.world.remove_voter(host.key)
        else:
            self.world.add_voter(host)

    def upgrade(self, host: Host) -> None:
        def act(node: RaftNode, now: int) -> None:
            try:
                node.upgrade_kraft_version(1, now)
            except (ValueError, NotLeaderError):
                return

        self.world.step(host, act)


def heal(world: World) -> None:
    world.blocked.clear()
    world.faults = False
    for host in world.hosts.values():
        host.paused_until = min(host.paused_until, world.now)
        if host.node is None:
            world.start(host)


def is_settled(world: World) -> bool:
    leaders = world.leaders()
    if not leaders:
        return False
    leader = leaders[0][1]
    return all(
        node.high_watermark == leader.high_watermark == leader.log_end_offset == node.log_end_offset
        for _, node in world.running()
    )


def test_the_promises_hold_and_the_quorum_recovers(sim_seed: int) -> None:
    rng = Random(sim_seed)
    shape = shape_of(rng)
    world = World(sim_seed, shape)
    # The first seeds belong to `make check` and must be quick.
    until = 5_000 if sim_seed < 20 else rng.choice((7_000, 15_000, 40_000))
    Chaos(world, until)
    world.run_until(until)
    heal(world)
    assert world.run_until_true(lambda: is_settled(world), 30_000), f"no recovery: {shape}"
    before = world.oracle.end
    world.propose(b"after all")
    assert world.run_until_true(lambda: is_settled(world) and world.oracle.end > before, 5_000)
