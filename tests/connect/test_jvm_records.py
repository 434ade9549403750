"""The three topics between real workers and our readers and writers of them, in both directions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from barnabas.client.config import ClientConfig
from barnabas.connect.topic_log import InternalTopic, LogRecord, TopicLog
from barnabas.core.connect.config_records import (
    connector_config_record,
    logger_level_record,
    restart_record,
    session_key_record,
    target_state_record,
    task_commit_record,
    task_config_records,
)
from barnabas.core.connect.config_state import (
    EMPTY_CONFIG,
    ClusterConfigState,
    LoggerLevelSet,
    RestartRequested,
    replay_config,
)
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.json_converter import decode_json, encode_json
from barnabas.core.connect.offset_state import EMPTY_OFFSETS, OffsetState, SourceOffset, offset_record, replay_offset
from barnabas.core.connect.records import Record
from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.status import (
    State,
    connector_status_record,
    task_status_record,
    topic_status_record,
)
from barnabas.core.connect.status_state import EMPTY_STATUSES, StatusState, replay_status
from tests.peers.connect import FILE_SOURCE, JvmWorker
from tests.peers.kafka import RealKafka
from tests.peers.maven import CONNECT_LINES

pytestmark = [pytest.mark.peer]
PATIENCE_SECONDS = 120.0


class Topics:
    """Connect's three topics as they are read, with the records themselves. Use as an async context manager."""

    def __init__(self, bootstrap: str, group: str) -> None:
        config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
        self.records: list[Record] = []
        self.config: ClusterConfigState = EMPTY_CONFIG
        self.statuses: StatusState = EMPTY_STATUSES
        self.offsets: OffsetState = EMPTY_OFFSETS
        self.events: list[object] = []
        self._logs: dict[str, TopicLog] = {}
        for name, read, partitions in (
            ("configs", self._read_config, 1),
            ("status", self._read_status, 2),
            ("offsets", self._read_offset, 2),
        ):
            topic = InternalTopic(f"{group}-{name}", "topic", "records", partitions, 1)
            self._logs[name] = TopicLog(config, topic, read)

    async def __aenter__(self) -> Topics:
        self._stack = AsyncExitStack()
        for log in self._logs.values():
            await self._stack.enter_async_context(log)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def append(self, name: str, records: Sequence[Record]) -> None:
        """Write to one of them and read back."""
        await self._logs[name].append(records)
        await self._logs[name].read_to_end()

    async def until(self, what: Callable[[], object]) -> None:
        """Read on until something is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not what():
                for log in self._logs.values():
                    await log.read_to_end()

    def last(self, key: str) -> Record:
        """Give the newest record with a key."""
        return [record for record in self.records if record.key == key.encode()][-1]

    def _read_config(self, record: LogRecord) -> None:
        self.records.append(Record(record.key or b"", record.value))
        self.config, event = replay_config(self.config, record.key, record.value, record.offset)
        self.events.append(event)

    def _read_status(self, record: LogRecord) -> None:
        self.records.append(Record(record.key or b"", record.value))
        self.statuses, complaint = replay_status(self.statuses, record.key or b"", record.value)
        assert complaint is None

    def _read_offset(self, record: LogRecord) -> None:
        self.records.append(Record(record.key or b"", record.value))
        self.offsets, complaint = replay_offset(self.offsets, record.key, record.value)
        assert complaint is None


@pytest.mark.requirement("C-11")
async def test_what_a_real_worker_writes_is_what_ours_would_write(
    real_kafka: RealKafka, group: str, tmp_path: Path
) -> None:
    source = tmp_path / "source ü.txt"
    source.write_text("one\ntwo\n")
    wanted = {"name": "x-1", "connector.class": FILE_SOURCE, "file": str(source), "topic": f"{group}-lines"}
    bootstrap = real_kafka.bootstrap("PLAINTEXT")
    settings = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
    worker = JvmWorker(tmp_path / "worker", bootstrap, group)
    try:
        await asyncio.to_thread(worker.start)
        async with Topics(bootstrap, group) as topics:
            put = await asyncio.to_thread(worker.ask, "/connectors/x-1/config", "PUT", wanted | settings)
            assert put.status == 201, put
            await topics.until(lambda: topics.offsets.offsets("x-1"))
            for path, method in (("stop", "PUT"), ("resume", "PUT"), ("restart?includeTasks=true", "POST")):
                answer = await asyncio.to_thread(worker.ask, f"/connectors/x-1/{path}", method)
                assert answer.status in (202, 204), answer
            level = {"level": "DEBUG"}
            await asyncio.to_thread(worker.ask, "/admin/loggers/a.b?scope=cluster", "PUT", level)
            await topics.until(lambda: LoggerLevelSet("a.b", "DEBUG") in topics.events)
            await topics.until(lambda: len(topics.statuses.tasks("x-1")) == len(topics.statuses.topics("x-1")) == 1)
            _compare(topics, wanted | settings, source, f"127.0.0.1:{worker.port}")
    finally:
        await asyncio.to_thread(worker.stop)


def _compare(topics: Topics, wanted: dict[str, str], source: Path, worker_id: str) -> None:
    state, task = topics.config, ConnectorTaskId("x-1", 0)
    assert dict(state.connector_configs["x-1"]) == wanted
    assert state.tasks("x-1") == [task]
    # A map's order is Java's; in that order, the bytes are ours.
    assert connector_config_record("x-1", _properties(topics.last("connector-x-1"))) == topics.last("connector-x-1")
    assert task_config_records("x-1", [_properties(topics.last("task-x-1-0"))])[0] == topics.last("task-x-1-0")
    assert task_commit_record("x-1", 1) in topics.records
    assert state.session_key is not None
    assert len(state.session_key.key) == 32
    assert session_key_record(state.session_key) == topics.last("session-key")
    for wanted_state in (TargetState.STOPPED, TargetState.STARTED):
        assert target_state_record("x-1", wanted_state) in topics.records
    (restart,) = [event.request for event in topics.events if isinstance(event, RestartRequested)]
    assert restart.include_tasks
    assert restart_record(restart) in topics.records
    assert logger_level_record("a.b", "DEBUG") in topics.records

    connector_status = topics.statuses.connector("x-1")
    assert connector_status is not None
    assert (connector_status.worker_id, connector_status.version) == (worker_id, "4.3.1")
    assert connector_status_record(connector_status) == topics.last("status-connector-x-1")
    (task_status,) = topics.statuses.tasks("x-1")
    assert task_status_record(task_status) == topics.last("status-task-x-1-0")
    (topic_status,) = topics.statuses.topics("x-1")
    assert topic_status_record(topic_status) == topics.last(f"status-topic-{wanted['topic']}:connector-x-1")

    (offset,) = topics.offsets.offsets("x-1")
    assert offset == SourceOffset({"filename": str(source)}, {"position": 8})
    assert offset_record("x-1", offset.partition, offset.offset) in topics.records
    for _, value in topics.records:
        assert value is None or encode_json(decode_json(value)) == value


def _properties(record: Record) -> dict[str, str | None]:
    value = decode_json(record.value or b"")
    assert isinstance(value, dict)
    properties = value["properties"]
    assert isinstance(properties, dict)
    return {name: text for name, text in properties.items() if isinstance(text, str | None)}


@pytest.mark.requirement("C-35")
@pytest.mark.parametrize("version", CONNECT_LINES)
async def test_a_real_worker_takes_up_what_ours_wrote(version: str, bootstrap: str, group: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("one\ntwo\n")
    config = {"connector.class": FILE_SOURCE, "file": str(source), "topic": f"{group}-lines", "name": "x-1"}
    task = config | {"task.class": FILE_SOURCE.replace("Connector", "Task")}
    key = SessionKey(b"not-to-be-seen-in-any-log-at-all", "HmacSHA256", int(time.time() * 1000))
    async with Topics(bootstrap, group) as topics:
        records = [session_key_record(key), connector_config_record("x-1", config), *task_config_records("x-1", [task])]
        await topics.append("configs", [*records, task_commit_record("x-1", 1)])
        await topics.append("configs", [connector_config_record("y", config | {"name": "y"})])
        await topics.append("configs", [target_state_record("y", TargetState.STOPPED)])
        await topics.append("offsets", [offset_record("x-1", {"filename": str(source)}, {"position": 4})])
        worker = JvmWorker(tmp_path / "worker", bootstrap, group, version)
        try:
            await asyncio.to_thread(worker.start)
            await topics.until(lambda: _state(topics, "x-1") is State.RUNNING and topics.statuses.tasks("x-1"))
            await topics.until(lambda: _state(topics, "y") in (State.STOPPED, State.PAUSED))
            assert _state(topics, "y") is (State.PAUSED if version == "2.3.0" else State.STOPPED)
            await topics.until(lambda: topics.offsets.offset("x-1", {"filename": str(source)}) == {"position": 8})
            assert worker.ask("/connectors/x-1/config").json == config
            assert worker.ask("/connectors/x-1").json["tasks"] == [{"connector": "x-1", "task": 0}]
        finally:
            await asyncio.to_thread(worker.stop)
        assert _lines_since(topics) == [4, 8], "it went on where ours said"
        # Whoever knows the key takes it as it is; an old worker says that it does not know it, and works.
        assert topics.config.session_key == key
        assert ("invalid key: session-key" in worker.log()) == (version == "2.3.0")
        assert key.key.decode() not in worker.log()


def _state(topics: Topics, connector: str) -> State | None:
    status = topics.statuses.connector(connector)
    return None if status is None else status.state


def _lines_since(topics: Topics) -> list[object]:
    values = [decode_json(r.value) for r in topics.records if r.value is not None and r.key.startswith(b'["x-1",')]
    return [value["position"] for value in values if isinstance(value, dict)]
