"""What goes wrong in a chaos run of loops: all that nodes suffer, and the loops themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.testing.processes import ProcessCluster
from tests.chaos.history import History
from tests.chaos.loops.clients import LoopClient
from tests.chaos.nemesis import Fault, Nemesis


class LoopNemesis(Nemesis):
    """Makes faults. done: gives how many records have come to the end of all loops."""

    progress = "brought to the end"

    def __init__(
        self,
        cluster: ProcessCluster,
        history: History,
        seed: int,
        say: Callable[[str], None],
        longest_s: float,
        *,
        clients: Sequence[LoopClient],
        done: Callable[[], int],
    ) -> None:
        super().__init__(cluster, history, seed, say, longest_s)
        self._clients = clients
        self._seen = done
        self._kinds += [
            (self._kill_client, 10),
            (self._kill_client_and_node, 6),
            (self._kill_clients, 2),
            (self._pause_client, 6),
            (self._replace_client, 6),
        ]

    def _done(self) -> int:
        return self._seen()

    def _client(self) -> LoopClient:
        return self._rng.choice(self._clients)

    def _kill_client(self) -> Fault:
        client = self._client()
        client.kill()
        return Fault(f"kill {client.job.name}", client.start)

    def _kill_client_and_node(self) -> Fault:
        client, node = self._client(), self._rng.choice(self._cluster.brokers)
        start_node = self._started(node)
        client.kill()
        node.kill()

        def undo() -> None:
            client.start()
            start_node()

        return Fault(f"kill {client.job.name} and {self._named(node)}", undo)

    def _kill_clients(self) -> Fault:
        for client in self._clients:
            client.kill()

        def undo() -> None:
            for client in self._clients:
                client.start()

        return Fault("kill every loop", undo)

    def _pause_client(self) -> Fault:
        client = self._client()
        client.pause()
        return Fault(f"pause {client.job.name}", client.resume)

    def _replace_client(self) -> Fault:
        client = self._client()
        client.replace()
        return Fault(f"replace {client.job.name}, which comes back", client.return_zombie)
