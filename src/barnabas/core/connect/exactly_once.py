"""Whether sources write in transactions, and the names that these go by (KIP-618)."""

from __future__ import annotations

from enum import StrEnum

from barnabas.core.connect.ids import ConnectorTaskId


class SourceSupport(StrEnum):
    """A worker's `exactly.once.source.support`.

    PREPARING: the leader writes in transactions, tasks do not yet. A group comes to ENABLED by way of it, each step a
    roll of all workers, so that no leader is left who cannot be shut out by its successor.
    """

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"

    @property
    def transactional_leader(self) -> bool:
        """Say whether the leader writes to the config topic in transactions."""
        return self is not SourceSupport.DISABLED

    @property
    def transactional_tasks(self) -> bool:
        """Say whether tasks of sources write in transactions."""
        return self is SourceSupport.ENABLED


def leader_transactional_id(group: str) -> str:
    """Give the transactional id that every leader of a group writes to the config topic with."""
    return f"connect-cluster-{group}"


def task_transactional_id(group: str, task: ConnectorTaskId) -> str:
    """Give the transactional id of a task, on whatever worker it runs."""
    return f"{group}-{task}"


def transactional_ids(group: str, connector: str, tasks: int) -> list[str]:
    """Give those of the first `tasks` tasks of a connector."""
    return [task_transactional_id(group, ConnectorTaskId(connector, n)) for n in range(tasks)]
