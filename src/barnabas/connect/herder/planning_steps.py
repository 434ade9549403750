"""What planning tasks needs of the herder (`task_configs.Publisher`), from its engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.connect.herder.task_configs import Forward, TaskConfig, changed
from barnabas.core.connect.config_state import Config
from barnabas.core.connect.ids import TargetState

if TYPE_CHECKING:
    from barnabas.connect.herder.engine import Engine


class PlanningSteps:
    """An engine as `task_configs.TaskConfigs` sees it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def plannable(self, connector: str) -> Config | None:
        """Give the configuration of a connector that runs here and is wanted so, None for any other."""
        state = self._engine.configs.state
        if not self._engine.work.runs(connector) or state.target_state(connector) is not TargetState.STARTED:
            return None
        return state.connector_config(connector)

    async def publish(self, connector: str, planned_for: Config, configs: Sequence[TaskConfig]) -> Forward | None:
        """Write tasks where this worker leads; give who is to, where another does; None when there is nothing to do."""
        engine = self._engine

        async def step() -> Forward | None:
            state = engine.configs.state
            if self.plannable(connector) != planned_for or not changed(state, connector, configs):
                return None  # a newer configuration has its own errand
            if engine.member.leads:
                await engine.write_task_configs(connector, configs)
                return None
            return Forward(engine.member.leader_url, state.session_key if engine.member.subprotocol.signs else None)

        return await engine.inbox.ask(step)

    def plan_failed(self, connector: str, trace: str) -> None:
        """Hear that a connector could not plan its tasks."""
        self._engine.work.fail_connector(connector, trace)
