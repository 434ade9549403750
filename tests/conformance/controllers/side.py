"""A controller by itself, and a cluster of brokers that exist only as registrations and heartbeats.

What a request leads to is read off the metadata log: the answer and the records are one outcome.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from barnabas.core.replicated import VersionedRecord
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.server.raft.metadata_log import read_batches
from barnabas.testing.processes import NodeProcess
from barnabas.wire.api_keys import row_of
from barnabas.wire.declaration import Message
from barnabas.wire.errors import ErrorCode
from barnabas.wire.metadata_records import decode_metadata_record
from tests.conformance.side_by_side.requests import request
from tests.conformance.side_by_side.side import Connection

ANY_OFFSET: Final = 2**40
"""A metadata offset that a broker may claim when it is to count as having read everything."""
TEXTS: Final = frozenset({"error_message"})
IGNORED: Final = frozenset({"throttle_time_ms"})
EPOCHS: Final = frozenset({"broker_epoch", "previous_broker_epoch"})
"""Offsets of the log that the registration was written at: the same place, but not the same number."""
BY_NAME: Final = frozenset({"features", "end_points"})
"""Lists whose order says nothing."""
UNTOLD: Final = frozenset({"NoOpRecord", "RegisterControllerRecord"})
"""Records that come by the clock or at the start, not by a request."""
FEATURES: Final = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}


def an_id(kind: int, n: int, m: int = 0) -> Uuid:
    """Give an id that is the same on both sides."""
    return Uuid(bytes([0xAB, kind, *n.to_bytes(4, "big"), *m.to_bytes(10, "big")]))


@dataclass
class Outcome:
    """What became of one step: the answer, and the records that it left in the log."""

    step: str
    answer: Any
    records: list[Any]


@dataclass
class FakeBroker:
    """A broker of the script. incarnation and directories are its number's; epoch: as the controller said."""

    id: int
    epoch: int = -1
    incarnation: int = 0
    directories: list[Uuid] = field(default_factory=list)


@dataclass
class ControllerSide:
    """One of two controllers that get the same requests. log: the file of the metadata log that is read."""

    name: str
    node: NodeProcess
    cluster_id: str
    outcomes: list[Outcome] = field(default_factory=list)
    topics: dict[str, Uuid] = field(default_factory=dict)
    brokers: dict[int, FakeBroker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        controller = self.node.plan.controller
        assert controller is not None
        self.port = controller.bound
        self._connection: Connection | None = None
        self._names: dict[Uuid, str] = {}
        self._scripts = 0
        self._epochs: dict[int, str] = {}
        self._at = 0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def begin(self) -> None:
        """Forget another script's outcomes, and pass over what it left in the log."""
        self._scripts += 1
        self.outcomes.clear()
        self.topics.clear()
        self.brokers.clear()
        self._epochs.clear()
        self._new_records()

    # -- requests

    def ask(self, asked: Message, version: int = -1) -> Any:
        """Send a request without noting what becomes of it."""
        if self._connection is None or self._connection.closed:
            self._connection = Connection(self.port)
        return self._connection.exchange(asked, row_of(asked).max_version if version < 0 else version)

    def call(self, name: str, version: int = -1, /, *, note: str = "", **fields: Any) -> Any:
        """Send a request, note its answer and its records, and give the answer."""
        answer = self.ask(request(name, **fields), version)
        records = self._new_records()
        for versioned in records:
            if type(versioned.record).__name__ == "TopicRecord":
                self._names[versioned.record.topic_id] = versioned.record.name
                self.topics[versioned.record.name] = versioned.record.topic_id
        step = f"{len(self.outcomes)}: {name} {note}".rstrip()
        told = [
            (f"{type(r.record).__name__} v{r.version}", self._shown(r.record))
            for r in records
            if type(r.record).__name__ not in UNTOLD
        ]
        self.outcomes.append(Outcome(step, self._shown(answer), in_order(told)))
        return answer

    # -- the cluster

    def directory(self, broker_id: int, n: int = 0) -> Uuid:
        """Give the id of one of a broker's log directories; no other script has it."""
        return an_id(1, broker_id, self._scripts * 16 + n)

    def register(self, broker_id: int, version: int = -1, **fields: Any) -> Any:
        """Register a broker, and remember its epoch when it was taken."""
        broker = self.brokers.setdefault(broker_id, FakeBroker(broker_id, directories=[self.directory(broker_id)]))
        values: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": self.cluster_id,
            "incarnation_id": an_id(2, broker_id, broker.incarnation),
            "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 9092 + broker_id, "security_protocol": 0}],
            "features": [
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in FEATURES.items()
            ],
            "rack": None,
            "log_dirs": broker.directories,
            **fields,
        }
        answer = self.call("BrokerRegistration", version, note=f"of broker {broker_id}", **values)
        if not answer.error_code:
            broker.epoch = answer.broker_epoch
            self._epochs.setdefault(broker.epoch, f"epoch {len(self._epochs)}")
        return answer

    def beat(self, broker_id: int, version: int = -1, **fields: Any) -> Any:
        """Send a broker's heartbeat; it has read all metadata unless said otherwise."""
        values = {"broker_epoch": self.epoch(broker_id), "current_metadata_offset": ANY_OFFSET, **fields}
        return self.call("BrokerHeartbeat", version, note=f"of broker {broker_id}", broker_id=broker_id, **values)

    def epoch(self, broker_id: int) -> int:
        """Give a broker's epoch, -1 when it never registered."""
        return self.brokers[broker_id].epoch if broker_id in self.brokers else -1

    def cluster(self, *broker_ids: int) -> None:
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            registered = self.register(broker_id)
            assert registered.error_code == ErrorCode.NONE, registered
            self.beat(broker_id, current_metadata_offset=self.epoch(broker_id))  # just far enough to be unfenced

    def leave(self) -> None:
        """Unregister the script's brokers and delete its topics, so that the next script finds none."""
        for broker_id in self.brokers:
            self.ask(request("UnregisterBroker", broker_id=broker_id))
        ids = [{"name": None, "topic_id": topic_id} for topic_id in self.topics.values()]
        if ids:
            self.ask(request("DeleteTopics", topics=ids, timeout_ms=60_000))
        self.close()

    def topic(self, name: str, *replicas: list[int], **configs: str) -> Uuid:
        """Make a topic with these replicas of each partition; two underscores in a key stand for a dot."""
        self.call(
            "CreateTopics",
            topics=[
                {
                    "name": name,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": i, "broker_ids": r} for i, r in enumerate(replicas)],
                    "configs": [{"name": key.replace("__", "."), "value": value} for key, value in configs.items()],
                }
            ],
            timeout_ms=60_000,
        )
        return self.topics.get(name, ZERO_UUID)

    def alter_partition(self, leader: int, topic: str, partition: int = 0, version: int = -1, **fields: Any) -> Any:
        """Propose an ISR as a leader; brokers of it come with their own epochs unless said otherwise."""
        isr = fields.pop("isr", [leader])
        values: dict[str, Any] = {"partition_index": partition, **fields}
        if version in (-1, 3):
            states = [{"broker_id": b, "broker_epoch": self.epoch(b)} for b in isr]
            values.setdefault("new_isr_with_epochs", states)
        else:
            values["new_isr"] = isr
        return self.call(
            "AlterPartition",
            version,
            broker_id=leader,
            broker_epoch=self.epoch(leader),
            topics=[{"topic_id": self.topics.get(topic, an_id(9, 9)), "partitions": [values]}],
        )

    def reassign(self, topic: str, replicas: list[int] | None, partition: int = 0, **fields: Any) -> Any:
        """Ask for a partition to be moved to these replicas, or with None for the move to be given up."""
        partitions = [{"partition_index": partition, "replicas": replicas}]
        values: dict[str, Any] = {"timeout_ms": 60_000, **fields}
        return self.call("AlterPartitionReassignments", topics=[{"name": topic, "partitions": partitions}], **values)

    def configure(self, kind: int, name: str, op: int = 0, **values: str | None) -> Any:
        """Change configs incrementally; two underscores in a key stand for a dot."""
        configs = [
            {"name": key.replace("__", "."), "config_operation": op, "value": value} for key, value in values.items()
        ]
        return self.call(
            "IncrementalAlterConfigs", resources=[{"resource_type": kind, "resource_name": name, "configs": configs}]
        )

    # -- what is compared

    def _new_records(self) -> list[VersionedRecord]:
        """Give the records that were written since the last look."""
        found = []
        with self._log().open("rb") as log:
            log.seek(self._at)
            data = log.read()
        for batch in read_batches(data):
            if not batch.control:
                found += [VersionedRecord(*decode_metadata_record(r.value)) for r in batch.records if r.value]
        self._at += _whole(data)
        return found

    def _log(self) -> Path:
        directory = self.node.files.data / "__cluster_metadata-0"
        return directory / f"{0:020d}.log"

    def _shown(self, value: Any, name: str = "") -> Any:
        if name in IGNORED:
            return None
        if name in TEXTS:
            return None if value is None else "a text"
        if name in EPOCHS:
            return self._epochs.setdefault(value, f"epoch {len(self._epochs)}") if value >= 0 else value
        if isinstance(value, Uuid):
            return self._names.get(value, str(value))
        if dataclasses.is_dataclass(value):
            return {f.name: self._shown(getattr(value, f.name), f.name) for f in dataclasses.fields(value)}
        if isinstance(value, list):
            shown = [self._shown(each) for each in value]
            return sorted(shown, key=lambda each: str(each["name"])) if name in BY_NAME else shown
        return value


def in_order(told: list[Any]) -> list[Any]:
    """Give records with those of one kind sorted where they follow each other: their order is a hash table's."""
    runs = (list(run) for _, run in groupby(told, key=lambda record: record[0]))
    return [record for run in runs for record in sorted(run, key=repr)]


def _whole(data: bytes) -> int:
    at = 0
    while at + 12 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if at + size > len(data):
            break
        at += size
    return at


def _alike(theirs: Any, ours: Any) -> bool:
    """Say whether answers are the same; an error may be explained where Kafka leaves it at the code."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        explained = bool(theirs.get("error_code")) and theirs.get("error_message", "") is None
        return theirs.keys() == ours.keys() and all(
            _alike(theirs[key], ours[key]) or (explained and key == "error_message") for key in theirs
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(_alike(a, b) for a, b in zip(theirs, ours, strict=True))
    return bool(theirs == ours)


def told(kafka: ControllerSide, barnabas: ControllerSide) -> Iterator[str]:
    """Say where the outcomes differ."""
    for theirs, ours in zip(kafka.outcomes, barnabas.outcomes, strict=False):
        assert theirs.step == ours.step, (theirs.step, ours.step)
        if not _alike(theirs.answer, ours.answer):
            yield f"{theirs.step}: answer\n    Kafka    {theirs.answer}\n    Barnabas {ours.answer}"
        if theirs.records != ours.records:
            yield f"{theirs.step}: records\n    Kafka    {theirs.records}\n    Barnabas {ours.records}"
    if len(kafka.outcomes) != len(barnabas.outcomes):
        yield f"{len(kafka.outcomes)} steps against Kafka's, {len(barnabas.outcomes)} against ours"
