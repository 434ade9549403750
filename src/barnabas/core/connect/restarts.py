"""Requests to restart a connector, its tasks, or what has failed of them, and what one comes to (KIP-745)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.status import ConnectorStatus, State, TaskStatus


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """One request. only_failed: leave alone what runs; include_tasks: the tasks too."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False

    @property
    def connector_alone(self) -> bool:
        """Say whether it asks for the plain restart of a connector, which needs no look at its status."""
        return not self.only_failed and not self.include_tasks

    @property
    def impact(self) -> int:
        """Rank requests for one connector by how much they are likely to restart; the highest one wins."""
        return 2 * (not self.only_failed) + self.include_tasks


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What a request comes to: whether the connector itself is restarted, and which of its tasks."""

    request: RestartRequest
    connector: bool
    tasks: tuple[ConnectorTaskId, ...]


def restart_plan(request: RestartRequest, connector: ConnectorStatus, tasks: Iterable[TaskStatus]) -> RestartPlan:
    """Give what a request comes to, where the connector and its tasks are in these states."""
    chosen = [
        task.id for task in tasks if request.include_tasks and (not request.only_failed or task.state is State.FAILED)
    ]
    restarts_connector = not request.only_failed or connector.state is State.FAILED
    return RestartPlan(request, restarts_connector, tuple(sorted(chosen)))
