"""A client of a chaos run in its own thread, which works until it is told to stop and whose end is never silent."""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from typing import Final

from tests.chaos.history import History

STOP_SECONDS: Final = 180


class Worker(ABC):
    """Does one client's work in a thread. name: unique in the run."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self.history = history
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    @abstractmethod
    def run(self) -> None:
        """Work until `stopping` is set."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end; `join` waits for it."""
        self.stopping.set()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            self.history.surprises.append(f"{self.name} did not come to an end within {STOP_SECONDS} s")

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception:  # noqa: BLE001  whatever ends a client early is a finding
            self.history.surprises.append(f"{self.name} ended:\n{traceback.format_exc()}")
