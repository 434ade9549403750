"""What goes wrong in a chaos run: one fault after the other, chosen by a seed, each undone before the next.

Whatever a single node does, the cluster has to go on; and whatever all of them do, it may stop, but must not forget.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.testing.network import CLIENTS
from barnabas.testing.processes import NodeProcess, NodeProcessError, ProcessCluster
from tests.chaos.history import History

READY_SECONDS: Final = 180.0
PROGRESS_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    """What happened. undo: takes it back."""

    text: str
    undo: Callable[[], None]


class Nemesis:
    """Makes faults. longest_s: of one fault; say: is told of each."""

    progress = "acknowledged"
    """What happens to records while work gets done."""

    def __init__(
        self, cluster: ProcessCluster, history: History, seed: int, say: Callable[[str], None], longest_s: float = 12.0
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._rng = random.Random(seed)
        self._say = say
        self._longest_s = longest_s
        self.count = 0
        self._kinds: list[tuple[Callable[[], Fault], int]] = [
            (self._kill, 6),
            (self._kill_two, 2),
            (self._kill_all, 1),
            (self._leave, 3),
            (self._pause, 5),
            (self._isolate, 5),
            (self._deafen, 3),
            (self._mute, 3),
            (self._hide_from_clients, 3),
            (self._slow_down, 3),
            (self._reset, 3),
        ]

    def run(self, stopping: threading.Event) -> None:
        """Make faults until told to stop; everything is whole again when this returns."""
        while not stopping.is_set():
            self._one(stopping)

    def _one(self, stopping: threading.Event) -> None:
        kinds, weights = zip(*self._kinds, strict=True)
        make = self._rng.choices(kinds, weights)[0]
        long = self._rng.uniform(0.2, self._longest_s)
        rest = self._rng.uniform(0.0, 4.0)
        begun = self._history.now()
        fault: Fault = make()
        self.count += 1
        self._say(f"{begun:7.1f} s  {fault.text}, for {long:.1f} s")
        stopping.wait(long)
        try:
            self._cluster.check()
            fault.undo()
        except NodeProcessError as e:
            self._history.surprises.append(str(e))
            stopping.set()
            return
        self._progress()
        stopping.wait(rest)

    def _progress(self) -> None:
        """Wait until work gets done again: the next fault must meet a cluster that works."""
        begun, known = self._history.now(), self._done()
        while self._done() == known:
            if self._history.now() - begun > PROGRESS_SECONDS:
                self._history.surprises.append(
                    f"{begun:.1f} s into the run all faults were over, and {PROGRESS_SECONDS:g} s later "
                    f"no record had been {self.progress}"
                )
                return
            threading.Event().wait(0.02)

    def _done(self) -> int:
        """Give a number that grows while work gets done."""
        return len(self._history.acknowledged)

    # --- faults

    def _any(self) -> NodeProcess:
        return self._rng.choice(list(self._cluster))

    def _named(self, node: NodeProcess) -> str:
        return f"{node.plan.roles.replace(',', '+')} {node.node_id}"

    def _started(self, *nodes: NodeProcess) -> Callable[[], None]:
        def start() -> None:
            for node in nodes:
                node.start(wait=False)
            for node in nodes:
                node.wait_ready(READY_SECONDS)

        return start

    def _kill(self) -> Fault:
        node = self._any()
        node.kill()
        return Fault(f"kill {self._named(node)}", self._started(node))

    def _kill_two(self) -> Fault:
        """One of each role where they are apart: each group can still do without one."""
        nodes = list(dict.fromkeys(map(self._rng.choice, (self._cluster.controllers, self._cluster.brokers))))
        for node in nodes:
            node.kill()
        return Fault("kill " + " and ".join(map(self._named, nodes)), self._started(*nodes))

    def _kill_all(self) -> Fault:
        nodes = list(self._cluster)
        for node in nodes:
            node.kill()
        return Fault("kill every node", self._started(*nodes))

    def _leave(self) -> Fault:
        node = self._any()
        node.stop()
        return Fault(f"stop {self._named(node)} in order", self._started(node))

    def _pause(self) -> Fault:
        node = self._any()
        node.pause()
        return Fault(f"pause {self._named(node)}", node.resume)

    def _isolate(self) -> Fault:
        node = self._any()
        self._cluster.network.isolate(node.node_id)
        return Fault(f"part {self._named(node)} from all other nodes", self._cluster.network.heal)

    def _deafen(self) -> Fault:
        node = self._any()
        self._cluster.network.hold(self._others(node), node.node_id)
        return Fault(f"let nothing through to {self._named(node)}", self._cluster.network.heal)

    def _mute(self) -> Fault:
        node = self._any()
        self._cluster.network.hold(node.node_id, self._others(node))
        return Fault(f"let nothing through from {self._named(node)}", self._cluster.network.heal)

    def _hide_from_clients(self) -> Fault:
        node = self._rng.choice(self._cluster.brokers)
        self._cluster.network.partition(CLIENTS, node.node_id)
        return Fault(f"part {self._named(node)} from all clients", self._cluster.network.heal)

    def _slow_down(self) -> Fault:
        node, delay_ms = self._any(), self._rng.randrange(20, 300)
        self._cluster.network.slow(node.node_id, [CLIENTS, *self._others(node)], delay_ms=delay_ms)
        return Fault(f"{delay_ms} ms to and from {self._named(node)}", self._cluster.network.heal)

    def _reset(self) -> Fault:
        node = self._any()
        ended = self._cluster.network.reset(node.node_id, [CLIENTS, *self._others(node)])
        return Fault(f"reset the {ended} connections of {self._named(node)}", lambda: None)

    def _others(self, node: NodeProcess) -> list[int]:
        return [n.node_id for n in self._cluster if n is not node]
