"""Options: Spark's names and defaults, and errors that say what would be right."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.offsets import AtTimestamp, Edge, OptionError, SpecificOffsets
from barnabas.spark.options import (
    Assignment,
    ReadOptions,
    TopicNames,
    TopicPattern,
    parse_read_options,
    parse_write_options,
)

CLIENT = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def read(options: Mapping[str, str] | None = None, *, streaming: bool = False, **more: str) -> ReadOptions:
    given = {**(options or {}), **more}
    if not given.keys() & {"subscribe", "assign", "subscribePattern"}:
        given["subscribe"] = "a"
    return parse_read_options(CLIENT | given, streaming=streaming)


def test_defaults_are_sparks() -> None:
    batch, stream = read(), read(streaming=True)
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.starting is Edge.LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert not batch.read_committed
    assert batch.group_id is None


def test_topics_are_chosen_in_three_ways() -> None:
    assert read(subscribe=" b, a,b ").selection == TopicNames(("b", "a"))
    assert read(subscribePattern="fl.*").selection == TopicPattern("fl.*")
    assert read(assign='{"a": [1, 0]}').selection == Assignment((TopicPartition("a", 0), TopicPartition("a", 1)))


def test_names_are_read_in_any_case_as_spark_hands_them_over() -> None:
    found = parse_read_options(
        CLIENT | {"subscribe": "a", "startingoffsets": "EARLIEST", "maxoffsetspertrigger": "5", "kafka.group.id": "g"},
        streaming=True,
    )
    assert (found.starting, found.max_offsets_per_trigger, found.group_id) == (Edge.EARLIEST, 5, "g")


def test_offsets_and_times_by_partition() -> None:
    a0 = TopicPartition("a", 0)
    assert read(startingOffsets='{"a": {"0": -2}}').starting == SpecificOffsets({a0: -2})
    assert read(startingTimestamp="5", startingOffsets="earliest").starting == AtTimestamp(everywhere_ms=5)
    by_partition = read(startingOffsetsByTimestamp='{"a": {"0": 7}}', startingOffsetsByTimestampStrategy="latest")
    assert by_partition.starting == AtTimestamp(by_partition_ms={a0: 7}, latest_when_none=True)
    assert read(endingTimestamp="9").ending == AtTimestamp(everywhere_ms=9, latest_when_none=True)


@pytest.mark.parametrize(("options", "says"), [
    ({"subscribe": "a", "assign": '{"a": [0]}'}, "exactly one of subscribe"),
    ({"subscribe": " , "}, "names no topic"),
    ({"subscribePattern": "("}, "not a regular expression"),
    ({"assign": "a"}, 'want JSON like {"topicA": [0, 1]'),
    ({"startingOffsets": "newest"}, "want earliest, latest or JSON"),
    ({"startingOffsets": '{"a": 3}'}, "want JSON like"),
    ({"startingOffsets": '{"a": {"0": -3}}'}, "gives -3 for a-0"),
    ({"startingOffsets": "latest"}, "always be empty"),
    ({"endingOffsets": "earliest"}, "always be empty"),
    ({"maxOffsetsPerTrigger": "0"}, "whole number of at least 1"),
    ({"minPartitions": "x"}, "whole number of at least 1"),
    ({"failOnDataLoss": "yes"}, "want true or false"),
    ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
    ({"minOffsetsPerTrigger": "5"}, "is not supported"),
    ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
    ({"kafka.isolation.level": "committed"}, "read_uncommitted or read_committed"),
])  # fmt: skip
def test_a_bad_option_says_what_is_right(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(options)
    assert says in str(caught.value)


def test_bootstrap_servers_are_needed() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        parse_read_options({"subscribe": "a"}, streaming=False)


def test_a_streaming_query_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets has no meaning"):
        read(streaming=True, endingOffsets="latest")


@pytest.mark.parametrize("key", ["sasl.password", "ssl.keystore.password", "sasl.jaas.config", "ssl.keystore.key"])
def test_a_secret_as_plain_text_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(OptionError, match="plain text") as caught:
        read({f"kafka.{key}": "hunter2"})
    assert "hunter2" not in str(caught.value)
    for reference in ("${env:SECRET}", "${file:/etc/client.properties:sasl.password}"):
        assert read({f"kafka.{key}": reference}).client[key] == reference


def test_writes_need_no_topic_option() -> None:
    assert parse_write_options(CLIENT).topic is None
    assert parse_write_options(CLIENT | {"topic": "out", "checkpointLocation": "x"}).topic == "out"


def test_exactly_once_is_asked_for() -> None:
    assert parse_write_options(CLIENT).transactional_id_prefix is None
    assert parse_write_options(CLIENT | {"exactlyOnce": "true"}).transactional_id_prefix == "barnabas-spark"
    named = {"exactlyonce": "TRUE", "transactionalidprefix": "orders", "kafka.acks": "all"}
    assert parse_write_options(CLIENT | named).transactional_id_prefix == "orders"
    write = {"exactlyOnce": "true", "txnAppId": "nightly", "txnVersion": "20261123"}
    assert parse_write_options(CLIENT | write).write_id == ("nightly", 20261123)


@pytest.mark.parametrize(("options", "says"), [
    ({"exactlyOnce": "yes"}, "want true or false"),
    ({"exactlyOnc": "true"}, "did you mean exactlyOnce"),
    ({"transactionalIdPrefix": "orders"}, "no effect without transactions: set exactlyOnce"),
    ({"exactlyOnce": "false", "transactionalIdPrefix": "orders"}, "set exactlyOnce to true"),
    ({"exactlyOnce": "true", "transactionalIdPrefix": " "}, "transactionalIdPrefix is empty"),
    ({"exactlyOnce": "true", "kafka.acks": "1"}, "kafka.acks is '1', but exactlyOnce needs all"),
    ({"exactlyOnce": "true", "kafka.enable.idempotence": "false"}, "exactlyOnce needs true"),
    ({"exactlyOnce": "true", "txnAppId": "nightly"}, "txnAppId is 'nightly' and txnVersion '': give both"),
    ({"exactlyOnce": "true", "txnAppId": "nightly", "txnVersion": "-1"}, "a number that grows"),
    ({"txnAppId": "nightly", "txnVersion": "1"}, "txnAppId has no effect without transactions"),
    ({"kafka.transactional.id": "orders"}, "use exactlyOnce, and transactionalIdPrefix"),
])  # fmt: skip
def test_transactions_that_cannot_be_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_write_options(CLIENT | options)
