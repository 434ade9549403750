"""The processes of the loops: killed, paused and doubled as a fault wants it, and begun anew when they ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.chaos.history import History
from tests.chaos.loops.loop import FAILED, Job
from tests.chaos.worker import Worker

STOP_SECONDS: Final = 60
TELL_SECONDS: Final = 0.5
"""For one that does not end to write down where it stands."""
_ROOT: Final = Path(__file__).parents[3]


class LoopClient:
    """A job, and the processes that do it: one, none while it is killed, or two when a paused one was replaced.

    Methods may be called from any thread.
    """

    def __init__(self, job: Job, directory: Path, history: History) -> None:
        self.job = job
        self.starts = 0
        self._file = directory / f"{job.name}.json"
        self._log = directory / f"{job.name}.log"
        self._history = history
        self.process: subprocess.Popen[bytes] | None = None
        self._zombie: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        job.write(self._file)

    def start(self) -> None:
        """Begin, or begin again."""
        with self._lock, self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.loops.loop", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
            )
            self.starts += 1

    def kill(self) -> None:
        """End it by SIGKILL; it stays away until `start`."""
        with self._lock:
            process, self.process = self.process, None
            _end(process)

    def pause(self) -> None:
        """Let it stand still until `resume`."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def replace(self) -> None:
        """Let it stand still, and another one with the same transactional id take its place."""
        with self._lock:
            _end(self._zombie)
            self.pause()
            self._zombie = self.process
            self.start()

    def return_zombie(self) -> None:
        """Let the one that was replaced go on: it has to find out by itself that it is fenced."""
        if self._zombie is not None:
            self._zombie.send_signal(signal.SIGCONT)

    def keep(self) -> None:
        """Begin again if it has ended by itself."""
        with self._lock:
            process = self.process
            if process is None or process.poll() is None:
                return
            if process.returncode not in (FAILED, -signal.SIGALRM):
                self._history.surprises.append(
                    f"{self.job.name} ended with code {process.returncode}:\n{self.log_tail()}"
                )
            hung = process.returncode == -signal.SIGALRM
            self._history.error(self.job.name, "hung" if hung else self.log_tail(1).partition(" ")[2])
            self.start()

    def stop(self) -> None:
        """End it in order; a surprise when it does not."""
        _end(self._zombie)
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TELL_SECONDS)
            self._history.surprises.append(f"{self.job.name} does not end in order:\n{self.log_tail(80)}")
            _end(process)

    def close(self) -> None:
        """Leave nothing behind."""
        for process in (self.process, self._zombie):
            _end(process)

    def log_tail(self, lines: int = 15) -> str:
        """Give the last of what it has printed."""
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-lines:])


class Keeper(Worker):
    """Begins loops again that ended by themselves, as whatever runs an application does."""

    def __init__(self, clients: list[LoopClient], history: History) -> None:
        super().__init__("keeper", history)
        self._clients = clients

    def run(self) -> None:
        """Look after them until told to stop."""
        while not self.stopping.wait(0.05):
            for client in self._clients:
                client.keep()


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
