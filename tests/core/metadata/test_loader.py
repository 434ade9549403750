"""The loader: deltas that add up to the image, transactions as a whole, snapshots at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.image import MetadataImage, replay_one, snapshot_records
from barnabas.core.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.core.replicated import ReplayError, VersionedRecord
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.end_transaction_record import EndTransactionRecord
from barnabas.wire.records.no_op_record import NoOpRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.core.metadata.metadata_records import FIRST, a_uuid, logs

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def batches(*groups: list[Any], base: int = 0, epoch: int = 1) -> list[CommittedBatch]:
    """Give one batch for each group of records."""
    made = []
    for group in groups:
        records = tuple(VersionedRecord(r, 0) for r in group)
        made.append(CommittedBatch(base, base + max(len(group), 1) - 1, epoch, records))
        base += max(len(group), 1)
    return made


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="k", value=value)


@given(logs(), st.lists(st.integers(1, 6), max_size=20))
@settings(max_examples=60, deadline=None)
def test_deltas_name_exactly_what_differs(log: list[Any], widths: list[int]) -> None:
    loader = MetadataLoader()
    groups: list[list[Any]] = []
    rest = log
    for width in [*widths, len(log)]:
        if rest:
            groups.append(rest[:width])
            rest = rest[width:]
    expected = MetadataImage.EMPTY
    for batch in batches(*groups):
        for versioned in batch.records:
            expected = replay_one(expected, versioned.record)
        [delta] = loader.load([batch])
        assert delta.after == expected.at(batch.last_offset, 1) == loader.image
        compared = difference(delta.before, delta.after)
        assert set(compared.topics) <= set(delta.topics)
        assert all(numbers <= delta.topics[i] for i, numbers in compared.topics.items())
        assert set(delta.topics) <= set(delta.after.topics.by_id)
        assert compared.deleted_topics == delta.deleted_topics
        for name in ("brokers", "controllers", "configs", "client_quotas", "scram"):
            assert getattr(compared, name) <= getattr(delta, name), name
        assert {i for i, _ in compared.acls} <= {i for i, _ in delta.acls}
        acls = dict(delta.before.acls.by_id)
        for acl_id, binding in delta.acls:
            if binding is None:
                del acls[acl_id]
            else:
                acls[acl_id] = binding
        assert acls == dict(delta.after.acls.by_id)


def test_nothing_of_an_open_transaction_is_seen() -> None:
    loader = MetadataLoader()
    deltas = loader.load(batches([FIRST], [config("0"), BEGIN, config("1")], [config("2")]))
    assert [d.after.offset_epoch for d in deltas] == [(1, 1)]
    assert loader.transaction_start == 2
    [delta] = loader.load(batches([config("3"), END], base=5))
    assert loader.transaction_start is None
    assert dict(delta.after.configs.by_resource[(4, "")]) == {"k": "3"}
    assert delta.after.offset_epoch == OffsetAndEpoch(6, 1)


def test_an_aborted_transaction_leaves_only_its_offsets() -> None:
    loader = MetadataLoader()
    loader.load(batches([FIRST], [config("0")]))
    [delta] = loader.load(batches([BEGIN, config("1"), ABORT], base=2))
    assert delta.empty
    assert delta.after == delta.before.at(4, 1)
    [delta] = loader.load(batches([BEGIN, config("2")], [END, config("3")], base=5))
    assert [sorted(delta.configs)] == [[(4, "")]]


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([BEGIN, BEGIN], "offset 1: a transaction begins inside"),
        ([FIRST, END], "offset 1: a transaction ends that never began"),
        ([ABORT], "offset 0: a transaction is aborted that never began"),
        ([FIRST, NoOpRecord(), RemoveTopicRecord(topic_id=a_uuid(1))], "offset 2: the metadata log names topic id"),
    ],
)
def test_a_damaged_log_is_reported_with_its_offset(records: list[Any], text: str) -> None:
    with pytest.raises(ReplayError, match=text):
        MetadataLoader().load(batches(records))


def test_control_batches_only_move_the_offset() -> None:
    loader = MetadataLoader()
    [delta] = loader.load([CommittedBatch(0, 0, 3, ())])
    assert delta.empty
    assert loader.image.offset_epoch == OffsetAndEpoch(0, 3)
    assert loader.load([]) == []


@given(logs(), logs())
@settings(max_examples=30, deadline=None)
def test_a_snapshot_is_one_step_from_any_image(one: list[Any], other: list[Any]) -> None:
    loader = MetadataLoader()
    loader.load(batches(one))
    after = MetadataImage.EMPTY
    for record in other:
        after = replay_one(after, record)
    delta = loader.load_snapshot(snapshot_records(after), OffsetAndEpoch(100, 4))
    assert delta.snapshot
    assert delta.after == after.at(100, 4) == loader.image
    assert loader.position == OffsetAndEpoch(100, 4)


def test_topics_made_and_removed_in_one_step_are_not_named() -> None:
    loader = MetadataLoader()
    made = [FIRST, TopicRecord(name="a", topic_id=a_uuid(1)), RemoveTopicRecord(topic_id=a_uuid(1))]
    [delta] = loader.load(batches(made))
    assert delta.topics == {}
    assert delta.deleted_topics == {}
    [delta] = loader.load(batches([TopicRecord(name="a", topic_id=a_uuid(2))], base=3))
    assert [t.name for t in delta.created_topics] == ["a"]
