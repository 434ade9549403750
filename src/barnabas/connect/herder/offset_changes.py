"""Moving connectors that are stopped: their offsets altered or reset (KIP-875)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from barnabas.connect.herder import answers
from barnabas.connect.herder.engine import Engine
from barnabas.connect.herder_port import BadRequestError, ConnectorOffset, ConnectorType
from barnabas.core.connect.ids import TargetState

_Change: TypeAlias = Callable[[Mapping[str, str]], Awaitable[str]]


class OffsetChanges:
    """What the leader does with offsets.

    Both raise NotLeaderError, NotFoundError, and BadRequestError unless the connector is stopped.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Move a connector; the answer says what was done."""
        runtime = self._engine.parts.runtime
        return await self._with_stopped(name, lambda config: runtime.alter_offsets(name, config, offsets))

    async def reset(self, name: str) -> str:
        """Have a connector begin again; the answer says what was done."""
        runtime = self._engine.parts.runtime
        return await self._with_stopped(name, lambda config: runtime.reset_offsets(name, config))

    async def _with_stopped(self, name: str, change: _Change) -> str:
        engine = self._engine
        config = await engine.ask(lambda: self._stopped(name))
        transactional = engine.parts.config.source_support.transactional_tasks
        if transactional and engine.parts.plugins.connector_type(config) is ConnectorType.SOURCE:
            await engine.fencing.fence(name)  # a task that is cut off from its group may write yet

        async def step() -> str:
            return await change(await self._stopped(name))

        return await engine.ask(step)

    async def _stopped(self, name: str) -> Mapping[str, str]:
        self._engine.check_settled()
        self._engine.check_leads("Only the leader can process external offsets modification requests")
        await self._engine.refresh()
        state = self._engine.configs.state
        config = answers.config_of(state, name)
        if state.target_state(name) is not TargetState.STOPPED or state.task_count(name) != 0:
            raise BadRequestError(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        return answers.texts(config)
