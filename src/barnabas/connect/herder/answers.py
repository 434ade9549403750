"""What is answered about connectors and tasks, from what the config and status topics say."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.connect.herder_port import (
    ConnectorInfo,
    ConnectorState,
    ConnectorStateInfo,
    ConnectorType,
    NotFoundError,
    Plugins,
    TaskInfo,
    TaskState,
)
from barnabas.core.connect.config_state import ClusterConfigState, Config
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.restarts import RestartPlan, RestartRequest, restart_plan
from barnabas.core.connect.status import ConnectorStatus, State, TaskStatus
from barnabas.core.connect.status_state import StatusState


def texts(config: Config) -> dict[str, str]:
    """Give a configuration without the settings that were written as null."""
    return {name: text for name, text in config.items() if text is not None}


def connector_type(plugins: Plugins, config: Config | None) -> ConnectorType:
    """Give which way a configured connector moves data."""
    return ConnectorType.UNKNOWN if config is None else plugins.connector_type(texts(config))


def config_of(state: ClusterConfigState, name: str) -> Config:
    """Give a connector's configuration; NotFoundError."""
    config = state.connector_config(name)
    if config is None:
        raise NotFoundError(f"Connector {name} not found")
    return config


def connector_info(state: ClusterConfigState, plugins: Plugins, name: str) -> ConnectorInfo:
    """Give a connector as it is configured; NotFoundError."""
    config = config_of(state, name)
    return ConnectorInfo(name, texts(config), tuple(state.tasks(name)), connector_type(plugins, config))


def task_infos(state: ClusterConfigState, name: str) -> Sequence[TaskInfo]:
    """Give a connector's tasks as they are configured; NotFoundError."""
    config_of(state, name)
    found = ((task, state.task_config(task)) for task in state.tasks(name))
    return [TaskInfo(task, texts(config)) for task, config in found if config is not None]


def connector_status(
    statuses: StatusState, state: ClusterConfigState, plugins: Plugins, name: str
) -> ConnectorStateInfo:
    """Give how a connector and its tasks do; NotFoundError while nobody has told."""
    status = statuses.connector(name)
    if status is None:
        raise NotFoundError(f"No status found for connector {name}")
    tasks = tuple(_task(task) for task in statuses.tasks(name))
    return ConnectorStateInfo(name, _connector(status), tasks, connector_type(plugins, state.connector_config(name)))


def task_status(statuses: StatusState, task: ConnectorTaskId) -> TaskState:
    """Give how a task does; NotFoundError while nobody has told."""
    status = statuses.task(task)
    if status is None:
        raise NotFoundError(f"No status found for task {task}")
    return _task(status)


def plan_of(statuses: StatusState, request: RestartRequest) -> RestartPlan | None:
    """Give what a request to restart comes to; None while nobody has told how the connector does."""
    status = statuses.connector(request.connector)
    return None if status is None else restart_plan(request, status, statuses.tasks(request.connector))


def restarting(info: ConnectorStateInfo, plan: RestartPlan) -> ConnectorStateInfo:
    """Give how a connector does with what a plan restarts shown as RESTARTING."""
    chosen = {task.task for task in plan.tasks}
    connector = info.connector
    if plan.connector:
        connector = ConnectorState(State.RESTARTING.value, connector.worker_id, None, connector.version)
    tasks = tuple(
        TaskState(t.id, State.RESTARTING.value, t.worker_id, None, t.version) if t.id in chosen else t
        for t in info.tasks
    )
    return ConnectorStateInfo(info.name, connector, tasks, info.type)


def _connector(status: ConnectorStatus) -> ConnectorState:
    return ConnectorState(status.state.value, status.worker_id, status.trace, status.version)


def _task(status: TaskStatus) -> TaskState:
    return TaskState(status.id.task, status.state.value, status.worker_id, status.trace, status.version)
