"""Offsets committed in and out of transactions, in any order, with one seed; compared with a plain list of the log."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from barnabas.core.coordinators.shard import NO_PRODUCER, At
from barnabas.core.coordinators.step import Now, Step
from barnabas.core.groups import retention
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.offsets import Place
from barnabas.core.groups.shard import GroupShard
from barnabas.model.uuid import Uuid
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.records.offset_commit_key import OffsetCommitKey
from barnabas.wire.records.offset_commit_value import OffsetCommitValue

GROUPS, TOPICS, PARTITIONS, PRODUCERS = ("g", "h"), ("t", "u"), (0, 1), (1, 2, 3)
PLACES = [Place(g, t, p) for g in GROUPS for t in TOPICS for p in PARTITIONS]
CONFIG = GroupConfig(offsets_retention_ms=50, offsets_retention_check_interval_ms=20)


class Written(NamedTuple):
    """A record in the log, and where it stands."""

    record: CoordinatorRecord
    at: At


class Ended(NamedTuple):
    """A transaction's marker."""

    producer: int
    commit: bool


def new_shard() -> GroupShard:
    return GroupShard(CONFIG, lambda: Uuid(bytes(16)))


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.shard = new_shard()
        self.now = Now(1_000, 0)
        self.log: list[Written | Ended] = []
        self.count = 0
        self.shard.loaded(self.now)

    def step(self) -> None:
        actions = {
            self.commit: 4, self.commit_in_transaction: 8, self.end: 5, self.delete_group: 1, self.delete_topic: 1,
            self.wait: 3, self.restart: 1,
        }  # fmt: skip
        self.rng.choices(list(actions), list(actions.values()))[0]()
        self.check()

    def carry(self, step: Step[object]) -> None:
        for record in step.records:
            producer = NO_PRODUCER if step.producer is None else step.producer.producer_id
            at = At(len(self.log), producer, self.now.wall_ms)
            self.shard.replay(record, at)
            self.log.append(Written(record, at))

    def commit(self) -> None:
        place = self.rng.choice(PLACES)
        self.count += 1
        partition = OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=self.count)
        topic = OffsetCommitRequestTopic(name=place.topic, partitions=[partition])
        self.carry(self.shard.commit_offsets(OffsetCommitRequest(group_id=place.group_id, topics=[topic]), 9, self.now))

    def commit_in_transaction(self) -> None:
        place = self.rng.choice(PLACES)
        self.count += 1
        partition = TxnOffsetCommitRequestPartition(partition_index=place.partition, committed_offset=self.count)
        request = TxnOffsetCommitRequest(
            group_id=place.group_id,
            producer_id=self.rng.choice(PRODUCERS),
            topics=[TxnOffsetCommitRequestTopic(name=place.topic, partitions=[partition])],
        )
        self.carry(self.shard.commit_in_transaction(request, self.now))

    def end(self) -> None:
        producer, commit = self.rng.choice(PRODUCERS), self.rng.random() < 0.6
        self.shard.end_transaction(producer, commit=commit)
        self.log.append(Ended(producer, commit))

    def delete_group(self) -> None:
        self.carry(self.shard.delete_groups([self.rng.choice(GROUPS)]))

    def delete_topic(self) -> None:
        self.carry(self.shard.topics_deleted([(self.rng.choice(TOPICS), Uuid(b"t" * 16))]))

    def wait(self) -> None:
        ms = self.rng.randint(1, 30)
        self.now = Now(self.now.wall_ms + ms, self.now.monotonic_ms + ms)
        while (step := self.shard.tick(self.now)) is not None:
            held = self.open_places()
            self.carry(step)
            for record in step.records:
                key = record.key
                if isinstance(key, OffsetCommitKey):
                    assert Place(key.group, key.topic, key.partition) not in held, "an offset in a transaction expired"

    def restart(self) -> None:
        again = new_shard()
        for event in self.log:
            if isinstance(event, Ended):
                again.end_transaction(event.producer, commit=event.commit)
            else:
                assert again.replay(event.record, event.at)
        assert again.image.offsets == self.shard.image.offsets
        again.loaded(self.now)
        self.shard = again

    # what the list says

    def model(self) -> tuple[dict[Place, int], dict[int, dict[Place, tuple[int, int]]]]:
        """Give committed offsets, and by producer those that are pending, with where they were written."""
        committed: dict[Place, tuple[int, int]] = {}
        pending: dict[int, dict[Place, tuple[int, int]]] = {}
        for where, event in enumerate(self.log):
            if isinstance(event, Ended):
                for place, one in pending.pop(event.producer, {}).items():
                    if event.commit and one > committed.get(place, (-1, -1)):
                        committed[place] = one
                continue
            record, at = event
            if not isinstance(record.key, OffsetCommitKey):
                continue
            place = Place(record.key.group, record.key.topic, record.key.partition)
            value = record.value
            if not isinstance(value, OffsetCommitValue):
                committed.pop(place, None)
                for mine in pending.values():
                    mine.pop(place, None)
            elif at.producer_id == NO_PRODUCER:
                committed[place] = where, value.offset
            else:
                pending.setdefault(at.producer_id, {})[place] = where, value.offset
        return {place: offset for place, (_, offset) in committed.items()}, pending

    def open_places(self) -> set[Place]:
        return {place for mine in self.model()[1].values() for place in mine}

    def check(self) -> None:
        committed, pending = self.model()
        unstable = {place for mine in pending.values() for place in mine}
        offsets = self.shard.image.offsets
        assert {g: offsets.has_open_transaction(g) for g in GROUPS} == {
            g: any(place.group_id == g for place in unstable) for g in GROUPS
        }
        for place in PLACES:
            asked = OffsetFetchRequestGroup(
                group_id=place.group_id,
                topics=[OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])],
            )
            response = self.shard.fetch_stable_offsets(asked).response
            assert response is not None
            got = response.topics[0].partitions[0]
            if place in unstable:
                assert got.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            else:
                assert (got.error_code, got.committed_offset) == (ErrorCode.NONE, committed.get(place, -1))
            found = offsets.get(place)
            assert (found.offset if found is not None else -1) == committed.get(place, -1)
        for place in unstable:
            assert place.group_id in self.shard.image.groups, "a group went with a transaction still open"


@pytest.mark.sim
def test_offsets_are_what_the_log_says(sim_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 1)  # a step for each group: anything may happen between them
    s = Simulation(sim_seed)
    for _ in range(200):
        s.step()
