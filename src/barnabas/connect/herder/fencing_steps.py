"""What shutting out tasks of before needs of the herder (`fencing.FencingHerder`), from its engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from barnabas.connect.herder import answers
from barnabas.connect.herder_port import ConnectorType
from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.session_keys import SessionKey

if TYPE_CHECKING:
    from barnabas.connect.herder.engine import Engine

T = TypeVar("T")


class FencingSteps:
    """An engine as `fencing.Fencing` sees it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ask(self, action: Callable[[], Awaitable[T]]) -> T:
        """Have something done as a step of the herder, however long a rebalance takes: the task waits for it."""
        return await self._engine.inbox.ask(action)

    async def fresh_state(self) -> ClusterConfigState:
        """Give the configuration after reading the config topic to its end; WriteFailedError."""
        await self._engine.refresh()
        return self._engine.configs.state

    async def put_task_count(self, connector: str, tasks: int) -> None:
        """Write a task count record; WriteFailedError."""
        await self._engine.write(self._engine.configs.put_task_count(connector, tasks))

    @property
    def leads(self) -> bool:
        """Say whether this worker leads its group, as far as it knows."""
        return self._engine.member.leads

    @property
    def leader_url(self) -> str | None:
        """Give where the leader's REST server is, None while there is none."""
        return self._engine.member.leader_url

    @property
    def signing_key(self) -> SessionKey | None:
        """Give what requests to the leader are signed with; None in a group that does not sign."""
        return self._engine.configs.state.session_key if self._engine.member.subprotocol.signs else None

    @property
    def assigned(self) -> Collection[ConnectorTaskId]:
        """Give the tasks that are assigned to this worker."""
        assignment = self._engine.member.assignment
        return () if assignment is None else assignment.tasks

    def connector_type(self, state: ClusterConfigState, connector: str) -> ConnectorType:
        """Give which way a connector moves data."""
        return answers.connector_type(self._engine.parts.plugins, state.connector_config(connector))
