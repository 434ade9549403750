"""Shutting out a source's tasks of before: the leader's rounds, and what a task asks before it begins (KIP-618).

A round's beginning and its end are steps of the herder; in between, while the brokers shut out one task after the
other, the herder goes on. Who asks while a round is under way waits for the same one. What is to be done is decided in
`core.connect.fencing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from barnabas.connect.herder import answers
from barnabas.connect.herder_port import BadRequestError, ConflictError, ConnectorType, HerderError, NotLeaderError
from barnabas.connect.leader_client import LeaderClient, LeaderRefusedError, LeaderUnreachableError
from barnabas.connect.runtime import Runtime
from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.fencing import FencingRound, fencing_due, is_overtaken, refusal
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.session_keys import SessionKey

log = structlog.get_logger("kafka.connect.herder")

T = TypeVar("T")
_OVERTAKEN = (
    "Connector {0} has new task configurations, so that shutting out the tasks of before was given up. The new tasks "
    "have it done again before they begin"
)


class FencingHerder(Protocol):
    """The herder's side of it. Everything but `ask` is called in its steps."""

    async def ask(self, action: Callable[[], Awaitable[T]]) -> T:
        """Have something done as a step of the herder."""

    async def fresh_state(self) -> ClusterConfigState:
        """Give the configuration after reading the config topic to its end; WriteFailedError."""

    async def put_task_count(self, connector: str, tasks: int) -> None:
        """Write a task count record; WriteFailedError."""

    @property
    def leads(self) -> bool:
        """Say whether this worker leads its group, as far as it knows."""

    @property
    def leader_url(self) -> str | None:
        """Give where the leader's REST server is, None while there is none."""

    @property
    def signing_key(self) -> SessionKey | None:
        """Give what requests to the leader are signed with; None in a group that does not sign."""

    @property
    def assigned(self) -> Collection[ConnectorTaskId]:
        """Give the tasks that are assigned to this worker."""

    def connector_type(self, state: ClusterConfigState, connector: str) -> ConnectorType:
        """Give which way a connector moves data."""


@dataclass(slots=True)
class _Round:
    due: FencingRound
    work: asyncio.Task[None]


class Fencing:
    """The rounds of this worker while it leads, and what its tasks ask for. algorithm: to sign requests with."""

    def __init__(self, herder: FencingHerder, runtime: Runtime, client: LeaderClient, algorithm: str) -> None:
        self._herder = herder
        self._runtime = runtime
        self._client = client
        self._algorithm = algorithm
        self._rounds: dict[str, _Round] = {}

    async def fence(self, connector: str) -> None:
        """Let the newest generation of a source begin; NotLeaderError, NotFoundError, BadRequestError, ConflictError.

        HerderError when the brokers did not shut out the tasks of before.
        """
        under_way = await self._herder.ask(lambda: self._begin(connector))
        if under_way is None:
            return
        await asyncio.wait({under_way.work})  # it goes on for others when this one does not wait any more
        if under_way.work.cancelled():
            raise ConflictError(_OVERTAKEN.format(connector))
        await under_way.work

    async def fence_here_or_at_the_leader(self, connector: str) -> None:
        """Have it done by whoever leads, for a task of this worker; HerderError."""
        try:
            await self.fence(connector)
        except NotLeaderError as e:
            await self._forward(connector, e.url)

    async def check(self, task: ConnectorTaskId, generation: int) -> None:
        """Return when a task that has its producer may begin; ConflictError when something came between."""

        async def step() -> None:
            state = await self._herder.fresh_state()
            if (why := refusal(task, generation, state, self._herder.assigned)) is not None:
                raise ConflictError(why)

        await self._herder.ask(step)

    def replanned(self, connector: str) -> None:
        """Hear that a connector has new tasks: a round for those before is pointless."""
        if (under_way := self._rounds.pop(connector, None)) is not None:
            under_way.work.cancel()

    async def close(self) -> None:
        """Give up everything."""
        rounds = list(self._rounds.values())
        for connector in list(self._rounds):
            self.replanned(connector)
        await asyncio.gather(*(each.work for each in rounds), return_exceptions=True)

    async def _begin(self, connector: str) -> _Round | None:
        herder = self._herder
        if not herder.leads:
            raise NotLeaderError("Only the leader may shut out tasks of before.", herder.leader_url)
        state = await herder.fresh_state()
        config = answers.texts(answers.config_of(state, connector))
        if herder.connector_type(state, connector) is not ConnectorType.SOURCE:
            raise BadRequestError(f"Connector {connector} is not a source connector")
        due = fencing_due(state, connector)
        if due is None:
            return None
        if not due.fenced:
            await herder.put_task_count(connector, due.recorded)
            return None
        under_way = self._rounds.get(connector)
        if under_way is None or under_way.due != due:
            self.replanned(connector)
            work = asyncio.create_task(self._run(due, config), name=f"fencing of {connector}")
            under_way = self._rounds[connector] = _Round(due, work)
            work.add_done_callback(lambda done: self._ended(connector, done))
        return under_way

    async def _run(self, due: FencingRound, config: dict[str, str]) -> None:
        log.info("shutting out a source's tasks of before", connector=due.connector, tasks=due.fenced)
        try:
            await self._runtime.fence(due.connector, config, due.fenced)
        except HerderError:
            raise
        except Exception as e:
            raise HerderError(
                f"The tasks of before of connector {due.connector} could not be shut out, so that those of now do not "
                f"begin; once the reason is gone, restart them: {e}"
            ) from e
        await self._herder.ask(lambda: self._record(due))

    async def _record(self, due: FencingRound) -> None:
        if not self._herder.leads:
            raise NotLeaderError("Only the leader may let tasks begin.", self._herder.leader_url)
        if is_overtaken(due, await self._herder.fresh_state()):
            raise ConflictError(_OVERTAKEN.format(due.connector))
        await self._herder.put_task_count(due.connector, due.recorded)

    def _ended(self, connector: str, work: asyncio.Task[None]) -> None:
        if (under_way := self._rounds.get(connector)) is not None and under_way.work is work:
            del self._rounds[connector]
        if not work.cancelled() and (e := work.exception()) is not None:
            log.warning("a source's tasks of before were not shut out", connector=connector, why=str(e))

    async def _forward(self, connector: str, url: str | None) -> None:
        if url is None:
            raise HerderError(
                f"Nobody leads the group at the moment who could shut out the tasks of before of connector {connector}"
            )
        try:
            await self._client.fence(url, connector, self._herder.signing_key, self._algorithm)
        except LeaderRefusedError as e:
            kind = ConflictError if e.status == 409 else HerderError
            raise kind(f"The tasks of before of connector {connector} were not shut out: {e}") from e
        except LeaderUnreachableError as e:
            raise HerderError(f"The tasks of before of connector {connector} were not shut out: {e}") from e


@dataclass(frozen=True, slots=True)
class TaskPreflight:
    """`runtime.Preflight` of one start of a task. generation: of its configuration."""

    fencing: Fencing
    task: ConnectorTaskId
    generation: int

    async def fence(self) -> None:
        """Return once the tasks of earlier generations are shut out; HerderError."""
        await self.fencing.fence_here_or_at_the_leader(self.task.connector)

    async def check(self) -> None:
        """Return when the task, which has its producer now, may begin; ConflictError, HerderError."""
        await self.fencing.check(self.task, self.generation)
