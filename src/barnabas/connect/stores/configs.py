"""The config topic: the newest state of the whole cluster's configuration, and how it is changed.

Whoever changes something sees the change in `state` when the call returns. Only the leader writes connectors, tasks
and keys; target states and logger levels may come from any worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from barnabas.client.config import ClientConfig
from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.stores.leader_writer import LeaderWriter
from barnabas.connect.stores.store import Store
from barnabas.connect.topic_log import WRITE_MS, InternalTopic, LogRecord
from barnabas.connect.transactional import TransactionalWriter
from barnabas.core.connect.config_records import (
    connector_config_record,
    connector_removal_records,
    logger_level_record,
    restart_record,
    session_key_record,
    target_state_record,
    task_commit_record,
    task_config_records,
    task_count_record,
)
from barnabas.core.connect.config_state import (
    EMPTY_CONFIG,
    ClusterConfigState,
    ConfigEvent,
    RecordIgnored,
    replay_config,
)
from barnabas.core.connect.ids import TargetState
from barnabas.core.connect.records import Record
from barnabas.core.connect.restarts import RestartRequest
from barnabas.core.connect.session_keys import SessionKey

log = structlog.get_logger("kafka.connect.storage")

READ_WRITE_SECONDS: Final = WRITE_MS / 1000
"""How long one change may take, reading it back included."""


class ConfigStore(Store):
    """What the config topic says.

    on_event is told of every change from the opening on, from the loop; what was there before is in `state` alone.
    leader: makes what the leader writes with where it does so in transactions, which it then has to claim.
    """

    def __init__(
        self,
        config: ClientConfig,
        topic: InternalTopic,
        on_event: Callable[[ConfigEvent], None],
        leader: Callable[[], TransactionalWriter] | None = None,
    ) -> None:
        super().__init__(config, topic)
        self.leader = LeaderWriter(self._log, leader)
        self._on_event = on_event
        self._state = EMPTY_CONFIG
        self._opened = False

    async def open(self) -> None:
        """Make the topic when it is missing and read it to its end; ConfigError, ApiError."""
        await super().open()
        self._opened = True

    async def close(self) -> None:
        """Stop following, and leading."""
        await self.leader.relinquish()
        await super().close()

    @property
    def state(self) -> ClusterConfigState:
        """Give what has been read."""
        return self._state

    async def refresh(self, timeout_s: float) -> ClusterConfigState:
        """Read to the end and give the state then; TimeoutError, or what the reader fails with."""
        async with asyncio.timeout(timeout_s):
            await self._log.read_to_end()
        return self._state

    async def put_connector_config(
        self, name: str, config: Mapping[str, str | None], target_state: TargetState | None = None
    ) -> None:
        """Create or reconfigure a connector, in a target state of its own if one is given; WriteFailedError."""
        first = () if target_state is None else (target_state_record(name, target_state),)
        await self._write_as_leader([*first, connector_config_record(name, config)])

    async def remove_connector(self, name: str) -> None:
        """Delete a connector; WriteFailedError."""
        await self._write_as_leader(connector_removal_records(name))

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Replace the tasks of a connector, all at once; WriteFailedError, and then the old ones are in force.

        The commit, which puts them into force, is written only once all others are known to be there.
        """
        await self._write_as_leader(task_config_records(name, configs))
        await self._write_as_leader([task_commit_record(name, len(configs))])

    async def put_task_count(self, name: str, tasks: int) -> None:
        """Let the tasks of a connector begin, now that those before are shut out (KIP-618); WriteFailedError."""
        await self._write_as_leader([task_count_record(name, tasks)])

    async def put_target_state(self, name: str, state: TargetState) -> None:
        """Say what is wanted of a connector; WriteFailedError."""
        await self._write([target_state_record(name, state)])

    async def put_session_key(self, key: SessionKey) -> None:
        """Hand out a key; WriteFailedError."""
        await self._write_as_leader([session_key_record(key)])

    async def put_restart_request(self, request: RestartRequest) -> None:
        """Ask every worker to restart what it has of a connector; WriteFailedError."""
        await self._write_as_leader([restart_record(request)])

    async def put_logger_level(self, namespace: str, level: str) -> None:
        """Set a logger's level on every worker; WriteFailedError."""
        await self._write([logger_level_record(namespace, level)])

    async def _write(self, records: Iterable[Record]) -> None:
        await self._written(self._log.append(records))

    async def _write_as_leader(self, records: Iterable[Record]) -> None:
        await self._written(self.leader.append(records))

    async def _written(self, append: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(READ_WRITE_SECONDS):
                await append
                await self._log.read_to_end()
        except TimeoutError:
            raise WriteFailedError(
                f"topic {self._log.topic.name!r} did not take a record within {READ_WRITE_SECONDS:.0f} s"
            ) from None

    def _replay(self, record: LogRecord) -> None:
        self._state, event = replay_config(self._state, record.key, record.value, record.offset)
        if isinstance(event, RecordIgnored):
            log.error("a record of the config topic is skipped", offset=record.offset, why=event.complaint)
        elif event is not None and self._opened:
            self._on_event(event)
