"""Who makes a simulated quorum's life hard: each nemesis brings about, by chance, what one kind of mistake needs.

`Chaos` does everything, and rarely two things at the moment that matters. `FickleLeaders` lets leaders fall just after
they have appended, before or after others have it: entries of earlier epochs then lie about everywhere (figure 8 of
the Raft paper). `DisputedVoters` asks every leader for other voters, old ones and ones that have not committed
anything yet too, while the network is parted.
"""

from __future__ import annotations

from functools import partial
from random import Random

from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.ready import NotLeaderError

from .raft_world import Host, World


class Nemesis:
    """Writes every so often, until `until`; what else it does is said by its kind."""

    def __init__(self, world: World, until: int) -> None:
        self.world = world
        self.rng = Random(world.rng.randrange(2**32))
        self.until = until
        self.wishes = 0
        self.world.at(500, self.wish)

    @property
    def is_over(self) -> bool:
        """Say whether everything is to be left in peace now."""
        return self.world.now >= self.until

    def wish(self) -> None:
        """Write."""
        if not self.is_over:
            self.wishes += 1
            self.world.propose(b"value %d" % self.wishes)
            self.world.at(self.rng.randrange(10, 250), self.wish)

    def block(self, cut: set[tuple[int, int]], for_ms: int) -> None:
        """Let nothing pass between these, in this direction."""
        self.world.blocked |= cut
        self.world.at(for_ms, lambda: self.world.blocked.difference_update(cut))

    def part(self, side: set[int], for_ms: int) -> None:
        """Let nothing pass between these hosts and the others."""
        ids = self.world.hosts
        self.block({(a, b) for a in ids for b in ids if (a in side) != (b in side)}, for_ms)

    def restart_after(self, host: Host, delay_ms: int) -> None:
        """Let a host that is down come back."""
        self.world.at(delay_ms, lambda: self.world.start(host) if host.node is None else None)

    def change_voters(self, leader: Host, node: RaftNode, host: Host) -> None:
        """Ask a leader to take a controller among the voters, or to remove it."""
        if node.control.voters.last.value.has(host.key):
            self.world.remove_voter(leader, host.key)
        else:
            self.world.add_voter(leader, host)


class Chaos(Nemesis):
    """Does something bad, or asks for something, every so often."""

    def __init__(self, world: World, until: int) -> None:
        super().__init__(world, until)
        self.world.at(1000, self.harm)

    def harm(self) -> None:
        """Do one thing by chance."""
        if self.is_over:
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
        """Crash it; where nobody counts on it, it may come back with an empty disk."""
        if host.node is None:
            return
        self.world.crash(host)
        if not self.may_vote(host) and self.world.shape.kraft_version and self.rng.randrange(4) == 0:
            self.world.wipe(host)
        self.restart_after(host, self.rng.randrange(1, 4000))

    def may_vote(self, host: Host) -> bool:
        """Say whether any voter set there is, committed or not, has this host."""
        return host.node_id <= self.world.shape.voters or any(
            host.node_id in control.voters.last.value.node_ids for control in self.world.controls()
        )

    def pause(self, host: Host) -> None:
        """Let it sleep."""
        self.world.pause(host, self.rng.randrange(100, 5000))

    def cut_off(self, host: Host) -> None:
        """Cut it off from the others, perhaps in one direction only."""
        others = [i for i in self.world.hosts if i != host.node_id]
        one_way = self.rng.randrange(3)
        cut = {(host.node_id, i) for i in others if one_way != 1} | {(i, host.node_id) for i in others if one_way != 2}
        self.block(cut, self.rng.randrange(500, 6000))

    def split(self, host: Host) -> None:
        """Part the network somewhere."""
        self.part({i for i in self.world.hosts if self.rng.randrange(2)}, self.rng.randrange(500, 6000))

    def snapshot(self, host: Host) -> None:
        """Let it make a snapshot."""
        self.world.snapshot(host, trim=self.rng.randrange(3) > 0)

    def voters(self, host: Host) -> None:
        """Let the leader change the voters by this host, or raise kraft.version so that it can."""
        leaders = self.world.leaders()
        if not leaders or not host.can_vote:
            return
        leader, node, _ = leaders[0]
        if node.control.kraft_version.last.value == 0:
            self.upgrade(leader)
        else:
            self.change_voters(leader, node, host)

    def upgrade(self, host: Host) -> None:
        """Ask for kraft.version 1."""

        def act(node: RaftNode, now: int) -> None:
            try:
                node.upgrade_kraft_version(1, now)
            except (ValueError, NotLeaderError):
                return

        self.world.step(host, act)


class FickleLeaders(Nemesis):
    """Ends each leadership by a crash or a cut, mostly while little of its epoch has reached the others."""

    def __init__(self, world: World, until: int) -> None:
        super().__init__(world, until)
        self.doomed: set[tuple[int, int]] = set()
        self.world.at(0, self.watch)

    def watch(self) -> None:
        """Doom each new leader, once its first entry is on its disk."""
        if self.is_over:
            return
        for host, _, role in self.world.believers():
            fate = (host.node_id, role.epoch)
            if fate not in self.doomed and host.disk.end > role.epoch_start:
                self.doomed.add(fate)
                # As long as a few messages take, or long enough to commit a good deal now and then.
                steps = self.rng.choice((1, 3, 6, 6, 40))
                self.world.at(self.rng.randrange(steps * self.world.shape.max_delay_ms), partial(self.end, host))
        self.world.at(3, self.watch)

    def end(self, host: Host) -> None:
        """End a leadership. So long as most hosts run, a new one follows."""
        if self.is_over or host.node is None:
            return
        patience_ms = self.world.shape.patience_ms
        gone_ms = self.rng.choice((0, patience_ms, 3 * patience_ms)) + self.rng.randrange(patience_ms)
        if self.rng.randrange(4):
            self.world.crash(host)
            self.restart_after(host, gone_ms)
        else:
            self.part({host.node_id}, gone_ms)


class DisputedVoters(Nemesis):
    """Parts the network around a leader, and asks the leaders of both sides for other voters as soon as they lead."""

    def __init__(self, world: World, until: int) -> None:
        super().__init__(world, until)
        self.asked: set[tuple[int, int]] = set()
        self.controllers = [host for host in world.hosts.values() if host.can_vote]
        self.world.at(1500, self.quarrel)
        self.world.at(0, self.watch)

    def watch(self) -> None:
        """Ask new leaders at once, and others now and then."""
        if self.is_over:
            return
        for host, node, role in self.world.believers():
            is_new = (host.node_id, role.epoch) not in self.asked
            if is_new or self.rng.randrange(60) == 0:
                self.asked.add((host.node_id, role.epoch))
                self.change_voters(host, node, self.rng.choice(self.controllers))
                if is_new and self.rng.randrange(2):
                    self.around(host)
        self.world.at(5, self.watch)

    def quarrel(self) -> None:
        """Part the network, or crash somebody, and go on when it is over."""
        if self.is_over:
            return
        leaders = self.world.believers()
        if leaders:
            self.around(leaders[0][0])
        if self.rng.randrange(4) == 0:
            host = self.rng.choice(self.controllers)
            self.world.crash(host)
            self.restart_after(host, self.rng.randrange(1, 3000))
        self.world.at(self.rng.randrange(500, 5000), self.quarrel)

    def around(self, leader: Host) -> None:
        """Let a leader reach one or two others only."""
        self.world.blocked.clear()
        others = [host.node_id for host in self.controllers if host is not leader]
        few = self.rng.sample(others, min(len(others), self.rng.choice((1, 1, 2))))
        self.part({leader.node_id, *few}, self.rng.randrange(500, 5000))
