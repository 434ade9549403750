"""Task configurations: planned where the connector runs, written by the leader, and tried again until they are there.

Each connector has at most one such errand under way; a newer wish replaces it. Nothing of this holds the herder up:
planning and forwarding happen beside it, and only the writing is one of its steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from barnabas.connect.herder.work import trace_of
from barnabas.connect.herder_port import HerderError
from barnabas.connect.leader_client import LeaderClient, LeaderRefusedError, LeaderUnreachableError
from barnabas.connect.runtime import Runtime
from barnabas.core.connect.config_state import ClusterConfigState, Config
from barnabas.core.connect.session_keys import SessionKey
from barnabas.model.ports import Clock

log = structlog.get_logger("kafka.connect.herder")

FIRST_BACKOFF_S: Final = 0.25
LAST_BACKOFF_S: Final = 60.0
KEY_CATCH_UP_MS: Final = 60_000
"""For how long a refused signature is taken for a key that is still on its way (C-24)."""
_KEY_MAY_BE_LATE: Final = frozenset({403, 503})

TaskConfig = Mapping[str, str | None]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Forward:
    """Who is to write: the leader elsewhere. key: None in a group that does not sign; url: None while nobody knows."""

    url: str | None
    key: SessionKey | None = field(repr=False)


class Publisher(Protocol):
    """The herder's side of it."""

    def plannable(self, connector: str) -> Config | None:
        """Give the configuration of a connector that runs here and is wanted so, None for any other."""

    async def publish(self, connector: str, planned_for: Config, configs: Sequence[TaskConfig]) -> Forward | None:
        """Write tasks where this worker leads; give who is to, where another does; None when there is nothing to do."""

    def plan_failed(self, connector: str, trace: str) -> None:
        """Hear that a connector could not plan its tasks."""


class TaskConfigs:
    """The errands of this worker's connectors."""

    def __init__(
        self,
        runtime: Runtime,
        client: LeaderClient,
        publisher: Publisher,
        algorithm: str,
        clock: Clock,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._runtime = runtime
        self._client = client
        self._publisher = publisher
        self._algorithm = algorithm
        self._clock = clock
        self._sleep = sleep
        self._errands: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Say whether any errand is under way."""
        return bool(self._errands)

    def request(self, connector: str) -> None:
        """Have a connector's tasks planned, and written where they differ from what is in force."""
        self.forget(connector)
        errand = asyncio.create_task(self._run(connector), name=f"task configurations of {connector}")
        self._errands[connector] = errand
        errand.add_done_callback(lambda done: self._ended(connector, done))

    def forget(self, connector: str) -> None:
        """Give up what is under way for a connector."""
        errand = self._errands.pop(connector, None)
        if errand is not None:
            errand.cancel()

    async def close(self) -> None:
        """Give up everything."""
        errands = list(self._errands.values())
        for connector in list(self._errands):
            self.forget(connector)
        await asyncio.gather(*errands, return_exceptions=True)

    def _ended(self, connector: str, errand: asyncio.Task[None]) -> None:
        if self._errands.get(connector) is errand:
            del self._errands[connector]
        if not errand.cancelled() and (e := errand.exception()) is not None:
            log.error("task configurations were given up; restart the connector", connector=connector, exc_info=e)

    async def _run(self, connector: str) -> None:
        since_ms = self._clock.now_ms()
        for wait_s in _backoffs():
            try:
                await self._once(connector)
            except (HerderError, LeaderRefusedError, LeaderUnreachableError) as e:
                self._log(connector, e, since_ms, wait_s)
                await self._sleep(wait_s)
            else:
                return

    async def _once(self, connector: str) -> None:
        config = self._publisher.plannable(connector)
        if config is None:
            log.info("a connector's tasks are not planned, for it is not running here", connector=connector)
            return
        try:
            configs = await self._runtime.plan(connector, {k: v for k, v in config.items() if v is not None})
        except Exception as e:  # noqa: BLE001 - it is the connector's
            self._publisher.plan_failed(connector, trace_of(e))
            return
        to = await self._publisher.publish(connector, config, configs)
        if to is None:
            return
        if to.url is None:
            raise LeaderUnreachableError("nobody has said yet where the leader's REST server is")
        await self._client.put_task_configs(to.url, connector, configs, to.key, self._algorithm)

    def _log(self, connector: str, e: Exception, since_ms: int, wait_s: float) -> None:
        if (
            isinstance(e, LeaderRefusedError)
            and e.status in _KEY_MAY_BE_LATE
            and self._clock.now_ms() - since_ms <= KEY_CATCH_UP_MS
        ):
            log.debug(
                "the leader did not take a connector's tasks, perhaps because the session key has just changed",
                connector=connector,
                why=str(e),
                again_in_s=wait_s,
            )
        else:
            log.error("a connector's tasks could not be written", connector=connector, again_in_s=wait_s, exc_info=e)


def changed(state: ClusterConfigState, connector: str, configs: Sequence[TaskConfig]) -> bool:
    """Say whether task configurations differ from those in force, or were made for another one of the connector."""
    in_force = [state.task_config(task) for task in state.tasks(connector)]
    if connector in state.inconsistent or [dict(c) for c in configs] != [dict(c or {}) for c in in_force]:
        return True
    return state.applied_configs.get(connector) != state.connector_config(connector)


def _backoffs() -> Iterator[float]:
    wait_s = FIRST_BACKOFF_S
    while True:
        yield wait_s
        wait_s = min(wait_s * 2, LAST_BACKOFF_S)
