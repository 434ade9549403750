"""What is shared out, and among whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.ids import ConnectorTaskId

Unit: TypeAlias = str | ConnectorTaskId
"""A piece of work for one worker: a connector by its name, or a task."""

Capable: TypeAlias = Callable[[str, str], bool]
"""Whether a member, by its id, has what a connector, by its name, needs.

Where a member has it, a unit goes to such members only. Where none has it, the unit goes to somebody all the same, as
under a JVM leader, who does not ask: a task that nobody is given has no state and no reason, so that nobody can see
what is missing; the worker that is given it reports FAILED with a trace that names the plug-in.
"""


@dataclass(frozen=True, slots=True)
class Shares:
    """What each member begins, gives up, and has in the end. delay_ms: when to rejoin, 0 for not by the clock."""

    assigned: Mapping[str, tuple[Unit, ...]]
    revoked: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)
    owned: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)
    delay_ms: int = 0


def units(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> tuple[Unit, ...]:
    """Give connectors and tasks as one list, each unit once, connectors first."""
    return tuple(dict.fromkeys([*connectors, *tasks]))


def connectors_of(work: Iterable[Unit]) -> tuple[str, ...]:
    """Give the connectors among some work, in its order."""
    return tuple(unit for unit in work if isinstance(unit, str))


def tasks_of(work: Iterable[Unit]) -> tuple[ConnectorTaskId, ...]:
    """Give the tasks among some work, in its order."""
    return tuple(unit for unit in work if isinstance(unit, ConnectorTaskId))


def connector_of(unit: Unit) -> str:
    """Give the connector that a unit is, or is a task of."""
    return unit if isinstance(unit, str) else unit.connector


def in_order(work: Iterable[Unit]) -> tuple[Unit, ...]:
    """Give work sorted: connectors by name, then tasks by connector and number."""
    work = list(work)
    return (*sorted(connectors_of(work)), *sorted(tasks_of(work)))


def configured(config: ClusterConfigState) -> tuple[Unit, ...]:
    """Give all the work that a cluster's configuration asks for, sorted as `in_order` does."""
    return in_order([*config.connectors, *(task for name in config.connectors for task in config.tasks(name))])
