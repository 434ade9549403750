"""When a source's tasks may write: only once those of all generations before are shut out (KIP-618).

A generation is a set of task configurations, put into force by a commit. Before its tasks begin, the leader makes sure
that no task of an older one can finish a transaction, and writes a task count record: how many tasks the next round is
to shut out. A task that has its own transactional producer looks once more whether its generation is still in force.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.ids import ConnectorTaskId


@dataclass(frozen=True, slots=True)
class FencingRound:
    """What the leader does before a new generation of a connector may begin.

    fenced: how many tasks of the last one are shut out, 0 where there is nothing to shut out; recorded: how many tasks
    the task count record is to name, once they are. generation: the new one, for whose sake it is done.
    """

    connector: str
    fenced: int
    recorded: int
    generation: int


def fencing_due(state: ClusterConfigState, connector: str) -> FencingRound | None:
    """Give what is to be done before a connector's tasks may begin, None where it has been done.

    Nobody is shut out where no task has ever had a transactional producer, and where one task follows one task: the new
    producer then has the old one's id, and shuts it out by itself.
    """
    if connector not in state.pending_fencing:
        return None
    before, now = state.task_count_records.get(connector), state.task_count(connector)
    fenced = 0 if before is None or before == now == 1 else before
    return FencingRound(connector, fenced, now, state.task_generation(connector))


def is_overtaken(due: FencingRound, state: ClusterConfigState) -> bool:
    """Say whether there is a newer generation by now, so that the round must not be recorded for it."""
    return due.generation < state.task_generation(due.connector)


def refusal(
    task: ConnectorTaskId, generation: int, state: ClusterConfigState, assigned: Collection[ConnectorTaskId]
) -> str | None:
    """Give why a task that has its transactional producer must not begin after all, None where it may.

    generation: of its configuration; assigned: the worker's tasks; state: read to the end after the producer was there,
    for else a task that slept meanwhile would have shut out its own successor and written in its place.
    """
    if state.task_generation(task.connector) != generation:
        return (
            f"Task {task} does not begin, for its connector has other task configurations by now. The task that has "
            "the newest one begins by itself; nothing needs to be done"
        )
    if task not in assigned:
        return (
            f"Task {task} does not begin, for it was taken from this worker meanwhile. It begins on the worker that "
            "has it now; nothing needs to be done"
        )
    return None
