"""What a request to restart comes to."""

from __future__ import annotations

import pytest

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.restarts import RestartRequest, restart_plan
from barnabas.core.connect.status import ConnectorStatus, State, TaskStatus

RUNNING, FAILED = ConnectorTaskId("x", 0), ConnectorTaskId("x", 1)
TASKS = [TaskStatus(FAILED, State.FAILED, "a:1", 1), TaskStatus(RUNNING, State.RUNNING, "a:1", 1)]


@pytest.mark.parametrize(
    ("only_failed", "include_tasks", "connector", "tasks"),
    [
        (False, False, True, ()),
        (False, True, True, (RUNNING, FAILED)),
        (True, False, False, ()),
        (True, True, False, (FAILED,)),
    ],
)
def test_what_is_restarted(
    only_failed: bool, include_tasks: bool, connector: bool, tasks: tuple[ConnectorTaskId, ...]
) -> None:
    request = RestartRequest("x", only_failed, include_tasks)
    plan = restart_plan(request, ConnectorStatus("x", State.RUNNING, "a:1", 1), TASKS)
    assert (plan.connector, plan.tasks) == (connector, tasks)
    assert restart_plan(request, ConnectorStatus("x", State.FAILED, "a:1", 1), TASKS).connector
    assert request.connector_alone == (not only_failed and not include_tasks)


def test_requests_that_restart_more_rank_higher() -> None:
    ways = [(True, False), (True, True), (False, False), (False, True)]
    assert [RestartRequest("x", *way).impact for way in ways] == [0, 1, 2, 3]
