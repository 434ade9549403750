"""The settings of exactly-once sources: those of workers, those of connectors, and what connectors say (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.config import WorkerConfig
from barnabas.connect.connector import ExactlyOnceSupport, Polled, PollingSource
from barnabas.connect.plugin import Catalogue, Kind, Plugin
from barnabas.connect.plugins import WorkerPlugins
from barnabas.connect.shipped_plugins import catalogue
from barnabas.core.connect.exactly_once import SourceSupport
from barnabas.model.config import ConfigError, ConfigKey, ConfigTable, ConfigType
from tests.connect.workers import worker_properties

SUPPORT = "exactly.once.source.support"
SHIPPED = catalogue()


class Talkative(PollingSource):
    """Says of itself what its configuration says."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        ConfigKey("says", ConfigType.STRING, "nothing", ""), ConfigKey("cuts", ConfigType.STRING, "no", "")
    )

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return []

    def poll(self, spark: SparkSession) -> Polled | None:
        return None

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        if self.config["says"] == "broken":
            raise RuntimeError("its author did not think of that")
        return None if self.config["says"] == "nothing" else ExactlyOnceSupport(self.config["says"])

    def can_define_transaction_boundaries(self) -> bool:
        if self.config["cuts"] == "broken":
            raise RuntimeError
        return bool(self.config["cuts"] == "yes")


def _worker(**more: str) -> WorkerConfig:
    more = {name.replace("_", "."): text for name, text in more.items()}
    return WorkerConfig.from_properties(worker_properties("127.0.0.1:1", "g") | more)


async def _wrong(support: str, **settings: str) -> dict[str, list[str]]:
    known = [*SHIPPED.of(), Plugin("Talkative", Kind.SOURCE, Talkative, "1.0")]
    plugins = WorkerPlugins(_worker(**{SUPPORT: support}), Catalogue(known))
    config = {"connector.class": "Talkative", "name": "x"}
    infos = await plugins.validate(config | {name.replace("_", "."): text for name, text in settings.items()})
    return {row["value"]["name"]: row["value"]["errors"] for row in infos.configs if row["value"]["errors"]}


@pytest.mark.parametrize("text", ["disabled", "Preparing", "ENABLED"])
def test_a_worker_takes_each_of_three_words(text: str) -> None:
    assert _worker(**{SUPPORT: text}).source_support is SourceSupport(text.lower())
    assert _worker().source_support is SourceSupport.DISABLED


def test_a_worker_refuses_other_words() -> None:
    with pytest.raises(ConfigError, match=rf"{SUPPORT}.*disabled, preparing, enabled"):
        _worker(**{SUPPORT: "never"})


def test_the_leader_has_the_groups_transactional_id_whatever_its_file_says() -> None:
    given = {"transactional.id": "mine", "acks": "1", "enable.idempotence": "false", "client.id": "w1"}
    properties = _worker(**{SUPPORT: "preparing"}, **given).leader_client.properties
    assert properties["transactional.id"] == "connect-cluster-g"
    assert (properties["acks"], properties["enable.idempotence"], properties["client.id"]) == (
        "all",
        "true",
        "w1-leader",
    )


@pytest.mark.parametrize(
    ("support", "named"),
    [
        ("disabled", []),
        ("preparing", ["acks=1"]),
        ("enabled", ["acks=1", "producer.enable.idempotence=false", "producer.transactional.id=mine"]),
    ],
)
def test_a_worker_says_what_it_does_not_leave_to_its_file(support: str, named: list[str]) -> None:
    own = {"acks": "1", "producer.acks": "-1", "producer.enable.idempotence": "false"}
    warnings = _worker(**{SUPPORT: support, "producer.transactional.id": "mine"}, **own).warnings
    assert [each.partition(" ")[0] for each in warnings if "has no effect where" in each] == named
    assert all(f"{SUPPORT} is {support}" in each for each in warnings if "has no effect where" in each)


@pytest.mark.parametrize(
    ("support", "says", "told"),
    [
        ("enabled", "supported", []),
        ("enabled", "unsupported", ["is not exactly once"]),
        ("enabled", "nothing", ["does not say"]),
        ("enabled", "broken", ["did not think of that"]),
        ("preparing", "supported", ["preparing"]),
        ("disabled", "supported", ["disabled"]),
        ("disabled", "unsupported", ["disabled", "is not exactly once"]),
    ],
)
async def test_a_connector_that_is_required_to_be_exactly_once_is_asked(
    support: str, says: str, told: list[str]
) -> None:
    wrong = await _wrong(support, exactly_once_support="REQUIRED", says=says)
    errors = wrong.pop("exactly.once.support", [])
    assert wrong == {}
    assert len(errors) == len(told)
    assert all(part in error for part, error in zip(told, errors, strict=True))
    assert await _wrong(support, exactly_once_support="requested", says=says) == {}


@pytest.mark.parametrize("support", SourceSupport)
@pytest.mark.parametrize(("cuts", "told"), [("yes", None), ("no", "want poll or interval"), ("broken", "RuntimeError")])
async def test_a_connector_is_asked_whether_it_can_say_where_transactions_end(
    support: str, cuts: str, told: str | None
) -> None:
    wrong = await _wrong(support, transaction_boundary="Connector", cuts=cuts)
    assert list(wrong) == ([] if told is None else ["transaction.boundary"])
    assert all(told in error for errors in wrong.values() for error in errors if told)
    assert await _wrong(support, transaction_boundary="interval", cuts=cuts) == {}


async def test_what_is_no_value_is_not_asked_about() -> None:
    wrong = await _wrong(
        "enabled",
        exactly_once_support="perhaps",
        transaction_boundary="never",
        transaction_boundary_interval_ms="-1",
        offsets_storage_topic="",
    )
    assert {name: len(errors) for name, errors in wrong.items()} == {
        "exactly.once.support": 1,
        "transaction.boundary": 1,
        "transaction.boundary.interval.ms": 1,
        "offsets.storage.topic": 1,
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"connector_class": "FileStreamSource", "file": "x", "topic": "t"}, None),
        ({"connector_class": "FileStreamSource", "topic": "t"}, "is not exactly once"),
        ({"connector_class": "JdbcSource", "incrementing_column_name": "id"}, None),
        ({"connector_class": "JdbcSource", "timestamp_column_name": "at"}, "is not exactly once"),
        ({"connector_class": "SparkSource", "format": "rate", "topic": "t"}, "does not say"),
    ],
)
async def test_what_the_shipped_sources_say(settings: dict[str, str], said: str | None) -> None:
    more = {"url": "jdbc:x", "table": "t", "topic": "t"} if "Jdbc" in settings["connector_class"] else {}
    wrong = await _wrong("enabled", exactly_once_support="required", **more, **settings)
    assert list(wrong) == ([] if said is None else ["exactly.once.support"])
    assert all(said in error for errors in wrong.values() for error in errors if said)
