"""Transactions: who produces, what belongs to a transaction, how it ends, and what is told of it."""

# ruff: noqa: E501 - tables of requests

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.wire.api_keys import API_KEYS, ApiKey

from .requests import request
from .script import side_by_side
from .side import ADMIN, NOBODY, Side
from .test_records import batch, fetch, produce

pytestmark = pytest.mark.peer
RETRY: Final = (14, 15, 16)
UNHEARD_OF: Final = 987_654_321
"""No coordinator gave this producer id out."""
LATE_MS: Final = 6_000
"""How long a transaction may take that is to take too long: a busy machine has to have begun it by then."""
ODD_TOPICS: Final[tuple[list[tuple[str, list[int]]], ...]] = (
    [], [("txn-broker", [])], [("txn-broker", [0, 9])], [("txn-none", [0])],
)  # fmt: skip


class Producer(NamedTuple):
    """A transactional id and who produces for it."""

    name: str
    id: int
    epoch: int

    @property
    def fields(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}


def versions(api: ApiKey) -> range:
    """Give the versions that brokers offer."""
    return range(API_KEYS[api].min_version, API_KEYS[api].max_version + 1)


def described(*names: str) -> Any:
    """Give the question what these transactional ids are about."""
    return request("DescribeTransactions", transactional_ids=list(names))


def ready(s: Side, *names: str) -> None:
    """Wait until this node coordinates the transactional ids."""
    for name in names:
        asked = request("FindCoordinator", coordinator_keys=[name], key_type=1)
        s.until(asked, lambda a: a.coordinators[0].error_code == 0)
        s.until(described(name), lambda a: a.transaction_states[0].error_code not in RETRY)


def settled(s: Side, *names: str) -> None:
    """Wait until no transaction of these ids is ending."""
    for name in names:
        s.until(described(name), lambda a: not a.transaction_states[0].transaction_state.startswith("Prepare"))


def init(name: str | None, **fields: Any) -> Any:
    """Give the request to be the producer of a transactional id."""
    return request("InitProducerId", **{"transactional_id": name, "transaction_timeout_ms": 60_000, **fields})


def begun(s: Side, name: str) -> Producer:
    """Be the producer of a transactional id; nothing is written down."""
    ready(s, name)
    answer = s.until(init(name), lambda a: a.error_code not in (*RETRY, 51))
    assert answer.error_code == 0, answer
    return Producer(name, answer.producer_id, answer.producer_epoch)


def added(version: int, producer: Producer, *topics: tuple[str, list[int]], **fields: Any) -> Any:
    """Give an AddPartitionsToTxn in the form of its version."""
    listed = [{"name": name, "partitions": partitions} for name, partitions in topics]
    if version < 4:
        return request(
            "AddPartitionsToTxn",
            v3_and_below_transactional_id=producer.name,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=listed,
        )
    return request("AddPartitionsToTxn", transactions=[{**producer.fields, "topics": listed, **fields}])


def ended(producer: Producer, *, commit: bool) -> Any:
    """Give the end of a transaction."""
    return request("EndTxn", **producer.fields, committed=commit)


def written(producer: Producer, sequence: int, count: int = 2, **fields: Any) -> bytes:
    """Give records of a transaction."""
    return batch(
        count,
        **{
            "transactional": True, "producer_id": producer.id, "producer_epoch": producer.epoch, "base_sequence": sequence,
            **fields,
        },
    )  # fmt: skip


def wrong(producer: Producer) -> dict[str, Producer]:
    """Give who a client may pretend to be."""
    return {
        "next epoch": producer._replace(epoch=producer.epoch + 1),
        "epoch before": producer._replace(epoch=producer.epoch - 1),
        "far epoch": producer._replace(epoch=producer.epoch + 7),
        "another id": producer._replace(id=UNHEARD_OF),
        "no id": producer._replace(id=-1, epoch=-1),
        "unknown name": producer._replace(name=producer.name + "-unknown"),
        "empty name": producer._replace(name=""),
    }


@side_by_side
def test_find_coordinator(s: Side) -> None:
    ready(s, "txn-found")
    for user in (ADMIN, NOBODY):
        for version in range(1, 4):
            for key in ("txn-found", ""):
                s.call(request("FindCoordinator", key=key, key_type=1), version, user, note=repr(key))
        for version in range(4, 7):
            for keys in ([], ["txn-found"], ["txn-found", "other", "txn-found"], [""]):
                s.call(request("FindCoordinator", coordinator_keys=keys, key_type=1), version, user, note=f"{keys}")


@side_by_side
def test_init_producer_id(s: Side) -> None:
    ready(s, "txn-init", "txn-init-2", "")
    s.until(init(None), lambda a: a.error_code == 0)  # the first id of all has to come from the controller
    for version in versions(ApiKey.INIT_PRODUCER_ID):
        s.call(init("txn-init"), version, note="anew")
        s.call(init("txn-init"), version, NOBODY)
        for timeout in (0, -1, 1, 900_000, 900_001, 2**31 - 1):
            s.call(init("txn-init-2", transaction_timeout_ms=timeout), version, note=f"timeout {timeout}")
        s.call(init(""), version, note="empty name")
        s.call(init(""), version, NOBODY, note="empty name")
        s.call(init(None, transaction_timeout_ms=-5), version, note="no name")
        if version < 3:
            continue
        now = begun(s, "txn-init")
        for note, each in {"itself": now, **wrong(now)}.items():
            if each.name == now.name:
                s.call(init(each.name, producer_id=each.id, producer_epoch=each.epoch), version, note=note)
        s.call(init("txn-init", producer_id=now.id, producer_epoch=now.epoch), version, note="again, the answer lost")
        s.call(init("txn-init", producer_id=now.id, producer_epoch=-1), version, note="id alone")
        s.call(init("txn-init", producer_id=-1, producer_epoch=3), version, note="epoch alone")
        s.call(
            init(f"txn-init-new-{version}", producer_id=UNHEARD_OF, producer_epoch=4), version, note="goes on unknown"
        )
        s.call(described("txn-init", f"txn-init-new-{version}"), note="after")
        if version >= 6:
            for two, keep in ((True, False), (False, True), (True, True)):
                for user in (ADMIN, NOBODY):
                    s.call(
                        init("txn-init", enable2_pc=two, keep_prepared_txn=keep), version, user, note=f"{two} {keep}"
                    )


@side_by_side
def test_init_producer_id_in_a_transaction(s: Side) -> None:
    s.topic("txn-open", 2)
    for version in versions(ApiKey.INIT_PRODUCER_ID):
        name = f"txn-opened-{version}"
        now = begun(s, name)
        s.call(added(3, now, ("txn-open", [0, 1])), 3)
        if version >= 3:
            fenced = now._replace(epoch=now.epoch + 3)
            s.call(init(name, producer_id=fenced.id, producer_epoch=fenced.epoch), version, note="wrong epoch")
            settled(s, name)
            s.call(described(name), note="after a wrong epoch")
            now = begun(s, name)
            s.call(added(3, now, ("txn-open", [0, 1])), 3)
        s.call(init(name), version, note="while open")
        settled(s, name)
        s.call(described(name), note="aborted")
        s.call(ended(now, commit=True), 3, note="by the fenced one")
        s.call(ended(now, commit=True), 5, note="by the fenced one")
        s.call(init(name), version, note="once aborted")
        s.call(described(name), note="empty")


@side_by_side
def test_add_partitions(s: Side) -> None:
    s.topic("txn-add", 3)
    s.topic("txn-add-other")
    s.allow("alice", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "txn-added", pattern=4)
    s.allow("alice", AclOperation.WRITE, ResourceType.TOPIC, "txn-add")
    for version in range(4):
        now = begun(s, f"txn-added-{version}")
        for note, each in wrong(now).items():
            s.call(added(version, each, ("txn-add", [0])), version, note=note)
        s.call(added(version, now), version, note="nothing")
        s.call(described(now.name), note="after nothing")
        s.call(added(version, now, ("txn-add", [])), version, note="no partitions")
        s.call(added(version, now, ("txn-add", [0, 9])), version, note="one unknown")
        s.call(added(version, now, ("txn-none", [0]), ("txn-add", [0])), version, note="unknown topic")
        s.call(added(version, now, ("__transaction_state", [0])), version, note="internal")
        s.call(added(version, now, ("txn-add", [0])), version, NOBODY)
        s.call(added(version, now, ("txn-add", [0]), ("txn-add-other", [0])), version, "alice", note="one not allowed")
        s.call(described(now.name), note="still")
        s.call(added(version, now, ("txn-add", [0, 0, 1])), version, "alice", note="allowed, twice")
        s.call(added(version, now, ("txn-add", [1])), version, note="again")
        s.call(added(version, now, ("txn-add", [2]), ("txn-add-other", [0])), version, note="more")
        for note, each in wrong(now).items():
            s.call(added(version, each, ("txn-add", [0])), version, note=f"{note}, open")
        s.call(described(now.name), note="open")
        s.call(ended(now, commit=bool(version % 2)), 3)
        settled(s, now.name)
        s.call(described(now.name), note="ended")
        s.call(added(version, now, ("txn-add", [2])), version, note="the next")
        s.call(described(now.name), note="the next")


@side_by_side
def test_add_partitions_for_brokers(s: Side) -> None:
    """Left out: a request for no transaction, which Kafka never answers."""
    s.topic("txn-broker", 3)
    for version in (4, 5):
        now = begun(s, f"txn-brokered-{version}")
        for verify in (False, True):
            for note, each in wrong(now).items():
                asked = added(version, each, ("txn-broker", [0]), verify_only=verify)
                s.call(asked, version, note=f"{note} {verify}")
            for topics in ODD_TOPICS:
                asked = added(version, now, *topics, verify_only=verify)
                s.call(asked, version, note=f"{topics} {verify}")
            s.call(added(version, now, ("txn-broker", [0]), verify_only=verify), version, NOBODY)
        s.call(added(version, now, ("txn-broker", [0]), verify_only=True), version, note="verified too early")
        s.call(added(version, now, ("txn-broker", [0, 1])), version, note="added")
        s.call(added(version, now, ("txn-broker", [0, 2]), verify_only=True), version, note="one is in it")
        for note, each in wrong(now).items():
            s.call(added(version, each, ("txn-broker", [0]), verify_only=True), version, note=f"{note}, open")
        several = added(version, now, ("txn-broker", [0]), verify_only=True)
        several.transactions += added(version, now._replace(name="txn-nobody"), ("txn-broker", [1])).transactions
        s.call(several, version, note="two")
        s.call(ended(now, commit=True), 5)
        settled(s, now.name)
        s.call(added(version, now, ("txn-broker", [0]), verify_only=True), version, note="ended")
        s.call(added(version, now, ("txn-broker", [0])), version, note="the epoch before")
        s.call(described(now.name))


@side_by_side
def test_end_txn(s: Side) -> None:
    s.topic("txn-end")
    for version in versions(ApiKey.END_TXN):
        for commit in (True, False):
            now = begun(s, f"txn-ended-{version}-{commit}")
            for also in (True, False):
                s.call(ended(now, commit=also), version, note=f"empty {also}")
                settled(s, now.name)
                s.call(described(now.name), note=f"empty {also}")
            now = begun(s, now.name)
            s.call(added(3, now, ("txn-end", [0])), 3)
            s.call(ended(now, commit=commit), version, NOBODY)
            for note, each in wrong(now).items():
                s.call(ended(each, commit=commit), version, note=note)
            s.call(described(now.name), note="open")
            s.call(ended(now, commit=commit), version, note="at last")
            settled(s, now.name)
            s.call(described(now.name), note="ended")
            for after in range(3):
                for also in (commit, not commit):
                    asked = ended(now._replace(epoch=now.epoch + after), commit=also)
                    s.call(asked, version, note=f"again {also}, {after} epochs later")
                    settled(s, now.name)
            s.call(described(now.name), note="in the end")


def committed(producer: Producer, group: str, *topics: tuple[str, list[int]], **fields: Any) -> Any:
    """Give a TxnOffsetCommit of offset 10 and up."""
    data = [
        {
            "name": name,
            "partitions": [
                {"partition_index": p, "committed_offset": 10 + p, "committed_metadata": f"m{p}"} for p in partitions
            ],
        }
        for name, partitions in topics
    ]
    return request("TxnOffsetCommit", **{**producer.fields, "group_id": group, "topics": data, **fields})


def ready_group(s: Side, *groups: str) -> None:
    """Wait until this node coordinates the groups."""
    for group in groups:
        s.until(request("FindCoordinator", coordinator_keys=[group]), lambda a: a.coordinators[0].error_code == 0)
        s.until(request("DescribeGroups", groups=[group]), lambda a: a.groups[0].error_code not in RETRY, 5)


@side_by_side
def test_add_offsets(s: Side) -> None:
    ready_group(s, "txn-offsets", "")
    for version in versions(ApiKey.ADD_OFFSETS_TO_TXN):
        now = begun(s, f"txn-offsets-{version}")
        for note, each in wrong(now).items():
            s.call(request("AddOffsetsToTxn", **each.fields, group_id="txn-offsets"), version, note=note)
        s.call(request("AddOffsetsToTxn", **now.fields, group_id="txn-offsets"), version, NOBODY)
        s.call(request("AddOffsetsToTxn", **now.fields, group_id=""), version, note="empty group")
        s.call(described(now.name))
        now = begun(s, f"txn-offsets-{version}-more")
        for note in ("added", "again"):
            s.call(request("AddOffsetsToTxn", **now.fields, group_id="txn-offsets"), version, note=note)
        state = s.ask(described(now.name))
        state.transaction_states[0].topics[
            0
        ].partitions = []  # Kafka and we count partitions of offsets alike: elsewhere
        s.note(described(now.name), 0, ADMIN, state)
        s.call(ended(now, commit=False), 3)
        settled(s, now.name)


@side_by_side
def test_offsets_in_transactions(s: Side) -> None:
    ready_group(s, "txn-keeps", "")
    s.topic("txn-kept", 2)
    both, stable = ("txn-kept", [0, 1]), {"require_stable": True}
    for version in versions(ApiKey.TXN_OFFSET_COMMIT):
        now = begun(s, f"txn-keeps-{version}")
        s.call(committed(now, "txn-keeps", both), version, note="not added")
        s.ask(ended(now, commit=False), 3)
        settled(s, now.name)
        now = begun(s, now.name)
        s.ask(request("AddOffsetsToTxn", **now.fields, group_id="txn-keeps"), 3)
        s.call(committed(now, "txn-keeps", both), version, NOBODY)
        for note, each in wrong(now).items():
            s.call(committed(each, "txn-keeps", both), version, note=note)
        s.call(committed(now, "txn-keeps"), version, note="nothing")
        s.call(committed(now, "", both), version, note="empty group")
        s.call(committed(now, "txn-keeps", ("txn-kept", [0, 7]), ("txn-none", [0])), version, note="unknown")
        long = committed(now, "txn-keeps", both)
        long.topics[0].partitions[0].committed_metadata = "x" * 5000
        s.call(long, version, note="much metadata")
        null = committed(now, "txn-keeps", both)
        null.topics[0].partitions[0].committed_metadata = None
        s.call(null, version, note="no metadata")
        negative = committed(now, "txn-keeps", both)
        negative.topics[0].partitions[0].committed_offset = -5
        s.call(negative, version, note="negative")
        if version >= 3:
            for member in (
                {"generation_id": 3},
                {"member_id": "x"},
                {"member_id": "x", "generation_id": 3},
                {"group_instance_id": "i", "member_id": "x"},
            ):
                s.call(committed(now, "txn-keeps", both, **member), version, note=f"{member}")
        s.call(committed(now, "txn-keeps", both), version, note="at last")
        listed = [{"name": "txn-kept", "partition_indexes": [0, 1]}]
        for kept in ({}, stable):
            s.call(request("OffsetFetch", group_id="txn-keeps", topics=listed, **kept), 7, note=f"pending {kept}")
        end = ended(now, commit=bool(version % 2))
        s.call(end, 3)
        settled(s, now.name)
        asked = request("OffsetFetch", group_id="txn-keeps", topics=listed, **stable)
        s.until(asked, lambda a: a.topics[0].partitions[0].error_code == 0, 7)
        s.call(asked, 7, note="ended")


@side_by_side
def test_produce_in_transactions(s: Side) -> None:
    ident = s.topic("txn-written", 2)
    s.allow("alice", AclOperation.WRITE, ResourceType.TOPIC, "txn-written")
    for version in versions(ApiKey.PRODUCE):
        now = begun(s, f"txn-writes-{version}")

        def send(records: bytes, note: str, user: str = ADMIN, named: str | None = now.name) -> None:
            produce(s, "txn-written", records, version, user, transactional_id=named, note=note)  # noqa: B023

        send(written(now, 0), "not added")
        s.ask(ended(now, commit=False), 3)
        settled(s, now.name)
        now = begun(s, now.name)
        s.call(added(3, now, ("txn-written", [0])), 3)
        send(written(now, 3), "not from 0")
        send(written(now, 0), "no name", named=None)
        send(written(now, 0), "empty name", named="")
        send(written(now, 0), "another name", named="txn-writes-nobody")
        send(written(now, 0, transactional=False), "not transactional")
        send(written(now, 0), "nobody", NOBODY)
        send(written(now, 0), "alice", "alice")
        for note, each in wrong(now).items():
            if each.name == now.name:
                send(written(each, 0), note)
        s.call(described(now.name))
        send(written(now, 0), "begun")
        send(written(now, 0), "duplicate")
        send(written(now, 9), "gap")
        send(written(now, 2), "next")
        send(batch(), "without a producer")
        for note, each in wrong(now).items():
            if each.name == now.name:
                send(written(each, 4), f"{note}, begun")
        send(written(now, 4, control=True), "a marker of its own")
        s.call(request("DescribeProducers", topics=[{"name": "txn-written", "partition_indexes": [0, 1, 7]}]))
        for level in (0, 1):
            s.call(
                request(
                    "ListOffsets",
                    isolation_level=level,
                    topics=[{"name": "txn-written", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
                ),
                note=f"{level}",
            )
        s.call(ended(now, commit=bool(version % 2)), 3)
        settled(s, now.name)
        s.call(request("DescribeProducers", topics=[{"name": "txn-written", "partition_indexes": [0]}]), note="ended")
        send(written(now, 4), "after the end")
        s.ask(ended(now, commit=False), 3)
        settled(s, now.name)
    for level in (0, 1):
        for version in (4, 5, 12, 17):
            s.call(fetch("txn-written", ident, version=version, isolation_level=level), version, note=f"{level}")


@side_by_side
def test_epochs_that_grow(s: Side) -> None:
    """Clients of transaction.version 2: partitions are added by producing, and each end gives the next epoch."""
    ident = s.topic("txn-grown", 2)
    now = begun(s, "txn-grows")
    for turn in range(6):
        produce(s, "txn-grown", written(now, 0), 12, transactional_id=now.name, note=f"{turn}")
        produce(s, "txn-grown", written(now, 0), 12, transactional_id=now.name, partition=1, note=f"{turn}")
        s.call(described(now.name), note=f"open {turn}")
        answer = s.call(ended(now, commit=bool(turn % 2)), 5, note=f"{turn}")
        settled(s, now.name)
        s.call(ended(now, commit=not turn % 2), 5, note=f"{turn} the other way")
        s.call(ended(now, commit=bool(turn % 2)), 5, note=f"{turn} again")
        s.call(described(now.name), note=f"ended {turn}")
        produce(s, "txn-grown", written(now, 2), 12, transactional_id=now.name, note=f"{turn} by the epoch before")
        now = Producer(now.name, answer.producer_id, answer.producer_epoch)
    s.call(ended(now, commit=False), 5, note="an abort of nothing")
    settled(s, now.name)
    s.call(described(now.name))
    s.call(fetch("txn-grown", ident, version=12, isolation_level=1), 12)


def set_level(s: Side, level: int) -> None:
    """Finalise a level of transaction.version; nothing is written down."""

    def levels(answer: Any) -> dict[str, int]:
        return {f.name: f.max_version_level for f in answer.finalized_features}

    asked = request("ApiVersions", client_software_name="x", client_software_version="1")
    now = levels(s.ask(asked)).get("transaction.version", 0)
    if now == level:
        return
    update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 1 if level > now else 2}
    answer = s.ask(request("UpdateFeatures", timeout_ms=60_000, feature_updates=[update]))
    assert answer.error_code == 0, answer
    s.until(asked, lambda a: levels(a).get("transaction.version", 0) == level)


@side_by_side
def test_every_level_of_the_server(s: Side) -> None:
    """What the finalised level decides, whoever the client is; the last one is what the other tests have."""
    ident = s.topic("txn-level")
    try:
        for level in (1, 0, 1, 2, 0, 2):
            set_level(s, level)
            name = f"txn-level-{level}"
            for version in (3, 11, 12) if level == 2 else (3, 11):  # Kafka's coordinator loses its way otherwise
                now = begun(s, name)
                if version < 12:
                    s.call(added(3, now, ("txn-level", [0])), 3)
                produce(s, "txn-level", written(now, 0), version, transactional_id=name, note=f"{level}")
                s.call(init(name), 4, note=f"{level} while open")
                settled(s, name)
                s.call(described(name), note=f"{level} fenced")
                s.call(init(name), 4, note=f"{level} once fenced")
                now = begun(s, name)
                if version < 12:
                    s.call(added(3, now, ("txn-level", [0])), 3)
                produce(s, "txn-level", written(now, 0), version, transactional_id=name, note=f"{level}")
                s.call(ended(now, commit=True), 5 if version == 12 else 3, note=f"{level}")
                settled(s, name)
                s.call(described(name), note=f"{level} ended")
            s.call(
                request("DescribeProducers", topics=[{"name": "txn-level", "partition_indexes": [0]}]), note=f"{level}"
            )
    finally:
        set_level(s, 2)
    s.call(fetch("txn-level", ident, version=12, isolation_level=1), 12)


def begun_to_be_late(s: Side, version: int, partition: int) -> Producer:
    """Begin a transaction that has a short time, and write to a partition of `txn-late`; nothing is written down."""
    name = f"txn-late-{version}"
    begun(s, name)
    answer = s.ask(init(name, transaction_timeout_ms=LATE_MS))
    now = Producer(name, answer.producer_id, answer.producer_epoch)
    if version < 12:
        s.ask(added(3, now, ("txn-late", [partition])), 3)
    records = [{"index": partition, "records": written(now, 0)}]
    asked = request(
        "Produce",
        acks=-1,
        timeout_ms=60_000,
        transactional_id=name,
        topic_data=[{"name": "txn-late", "partition_data": records}],
    )
    assert s.ask(asked, version).responses[0].partition_responses[0].error_code == 0
    return now


@side_by_side
def test_transactions_that_take_too_long(s: Side) -> None:
    """Their times pass beside each other, each in a partition of its own."""
    ident = s.topic("txn-late", 3)
    late = [
        (partition, version, begun_to_be_late(s, version, partition)) for partition, version in enumerate((3, 11, 12))
    ]
    for partition, version, now in late:
        s.until(described(now.name), lambda a: a.transaction_states[0].transaction_state == "CompleteAbort")
        s.call(described(now.name), note="aborted")
        records = written(now, 2)
        produce(s, "txn-late", records, version, transactional_id=now.name, partition=partition, note="too late")
        for end in (3, 5):
            for commit in (True, False):
                s.call(ended(now, commit=commit), end, note=f"{version} too late {commit}")
        s.call(init(now.name, producer_id=now.id, producer_epoch=now.epoch), 4, note=f"{version} goes on")
        s.call(described(now.name), note="in the end")
        s.call(request("DescribeProducers", topics=[{"name": "txn-late", "partition_indexes": [partition]}]))
        part = {"partition": partition}
        s.call(fetch("txn-late", ident, version=12, isolation_level=1, part=part), 12)


def marker(producer_id: int, epoch: int, *topics: tuple[str, list[int]], **fields: Any) -> Any:
    """Give a WriteTxnMarkers of one marker."""
    listed = [{"name": name, "partition_indexes": partitions} for name, partitions in topics]
    return request(
        "WriteTxnMarkers",
        markers=[{"producer_id": producer_id, "producer_epoch": epoch, "topics": listed, **fields}],
    )


@side_by_side
def test_write_markers(s: Side) -> None:
    ident = s.topic("txn-marked", 2)
    ready_group(s, *(f"txn-marked-{n}" for n in range(4)))  # one of each partition of __consumer_offsets
    for version in versions(ApiKey.WRITE_TXN_MARKERS):
        for level in (0, 1, 2) if version >= 2 else (0,):
            also = {"transaction_version": level} if version >= 2 else {}
            begun(s, f"txn-marks-{version}-{level}")
            now = begun(s, f"txn-marks-{version}-{level}")
            produce(s, "txn-marked", written(now, 0), 12, transactional_id=now.name)
            tried: dict[str, Any] = {
                "nothing": marker(now.id, now.epoch, **also),
                "no partitions": marker(now.id, now.epoch, ("txn-marked", []), **also),
                "unknown": marker(now.id, now.epoch, ("txn-none", [0]), ("txn-marked", [9]), **also),
                "old epoch": marker(now.id, now.epoch - 1, ("txn-marked", [0]), **also),
                "same epoch": marker(now.id, now.epoch, ("txn-marked", [0]), **also),
                "again": marker(now.id, now.epoch, ("txn-marked", [0]), **also),
                "newer coordinator": marker(now.id, now.epoch + 1, ("txn-marked", [0, 1]), coordinator_epoch=5, **also),
                "older coordinator": marker(now.id, now.epoch + 1, ("txn-marked", [0]), coordinator_epoch=4, **also),
                "commit": marker(now.id, now.epoch + 2, ("txn-marked", [1]), coordinator_epoch=5, transaction_result=True, **also),
                "no epoch": marker(now.id, -1, ("txn-marked", [0]), coordinator_epoch=6, **also),
                "unknown producer": marker(UNHEARD_OF + 10 * version + level, 3, ("txn-marked", [0]), **also),
                "negative producer": marker(-1, 3, ("txn-marked", [0]), **also),
                "offsets": marker(now.id, now.epoch + 5, ("__consumer_offsets", [0]), coordinator_epoch=5, **also),
                "transactions": marker(now.id, now.epoch + 5, ("__transaction_state", [0]), coordinator_epoch=5, **also),
            }  # fmt: skip
            for note, asked in tried.items():
                s.call(asked, version, NOBODY, note=f"{note} {level}")
                s.call(asked, version, note=f"{note} {level}")
            s.call(
                request("DescribeProducers", topics=[{"name": "txn-marked", "partition_indexes": [0, 1]}]),
                note=f"{level}",
            )
        s.call(request("WriteTxnMarkers", markers=[]), version, note="none")
        twice = marker(UNHEARD_OF, 9 + version, ("txn-marked", [0]))
        twice.markers += marker(UNHEARD_OF, 19 + version, ("txn-marked", [1])).markers
        s.call(twice, version, note="two")
    s.allow("alice", AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    s.call(marker(UNHEARD_OF + 2, 9, ("txn-marked", [0])), user="alice")
    for partition in (0, 1):
        s.call(fetch("txn-marked", ident, version=12, isolation_level=1, part={"partition": partition}), 12)


@side_by_side
def test_described(s: Side) -> None:
    s.topic("txn-told")
    s.topic("txn-hidden")
    now = begun(s, "txn-told")
    s.call(added(3, now, ("txn-told", [0]), ("txn-hidden", [0])), 3)
    ready(s, "", "txn-unknown")
    for asked in (described("txn-told", "txn-unknown", "txn-told"), described(""), described()):
        for user in (ADMIN, NOBODY):
            s.call(asked, 0, user)
    s.allow("bob", AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "txn-told")
    s.allow("bob", AclOperation.DESCRIBE, ResourceType.TOPIC, "txn-told")
    s.call(described("txn-told", "txn-unknown"), 0, "bob", note="one topic is seen")
    s.call(ended(now, commit=True), 3)
    settled(s, "txn-told")


@side_by_side
def test_listed(s: Side) -> None:
    s.topic("txn-listed")
    a, b = begun(s, "txn-listed-a"), begun(s, "txn-listed-b")
    s.call(added(3, a, ("txn-listed", [0])), 3)

    def some(version: int, user: str = ADMIN, **fields: Any) -> None:
        answer = s.ask(request("ListTransactions", **fields), version, user)
        answer.transaction_states = [
            t for t in answer.transaction_states if t.transactional_id.startswith("txn-listed")
        ]
        s.note(
            request("ListTransactions"),
            version,
            user,
            answer,
            f"{ {k: v for k, v in fields.items() if k != 'producer_id_filters'} }",
        )

    for version in versions(ApiKey.LIST_TRANSACTIONS):
        for user in (ADMIN, NOBODY):
            some(version, user)
        for states in (
            ["Ongoing"],
            ["Empty"],
            ["ongoing"],
            ["Nonsense"],
            ["Empty", "Nonsense", "Ongoing"],
            ["Dead"],
            ["PrepareEpochFence"],
            [""],
            ["CompleteAbort"],
        ):
            some(version, state_filters=states)
        some(version, producer_id_filters=[a.id, UNHEARD_OF])
        some(version, producer_id_filters=[b.id], state_filters=["Ongoing"])
        some(version, producer_id_filters=[-1])
        if version >= 1:
            for duration in (0, -1, -5, 3_600_000, 2**62):
                some(version, duration_filter=duration)
        if version >= 2:
            for pattern in (
                None,
                "",
                "txn-listed-.*",
                "txn-listed",
                ".*b",
                "(",
                "[",
                "txn-listed-[ab]",
                "(?=x)",
                r"(a)\1",
                "a{2000}",
                "TXN-.*",
                "(?i)TXN-.*",
                r"\d",
                "txn-listed-a|b",
                "*",
            ):
                some(version, transactional_id_pattern=pattern)
    s.allow("bob", AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "txn-listed-b")
    some(2, "bob")
    s.call(ended(a, commit=True), 3)
    settled(s, a.name)
    some(2)
