"""The names that connectors, their tasks and what users want of them go by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """A task by its connector and its number, from 0; orders by name, then by number, and prints as `name-0`."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TargetState(StrEnum):
    """What the user wants a connector to do (KIP-875: STOPPED gives its tasks up, PAUSED keeps them)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
