"""Configs of groups: which are taken, what the broker's bounds do, and how they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.model.config import ConfigError
from barnabas.server.config_schema import NodeConfigSchema
from barnabas.server.described_configs import DescribedConfigs, Source, Telling
from barnabas.server.group_configs import GROUP_CONFIG, group_config_of
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.config_record import ConfigRecord

from .controllers import node_config

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
GROUP = ConfigResource(ConfigResourceType.GROUP, "g")


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {SESSION: "45000"},
        {SESSION: "60000", HEARTBEAT: "15000", INTERVAL: "0"},
        {"share.auto.offset.reset": "by_duration:PT1H", "share.isolation.level": "read_committed"},
        {"streams.num.standby.replicas": "2"},
    ],
)
def test_what_is_taken(tmp_path: Path, configs: dict[str, str]) -> None:
    NodeConfigSchema(node_config(tmp_path)).check(GROUP, configs, {})


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"consumer.session.timeout": "45000"}, "is not a key of groups; consumer.session.timeout.ms is"),
        ({SESSION: "44999"}, "45000 to 60000"),
        ({SESSION: "60001"}, "45000 to 60000"),
        ({HEARTBEAT: "4999"}, "5000 to 15000"),
        ({HEARTBEAT: "15001"}, "5000 to 15000"),
        ({INTERVAL: "15001"}, "0 to 15000"),
        ({INTERVAL: "-1"}, "not allowed"),
        ({SESSION: "soon"}, "not a whole number"),
        ({"streams.num.standby.replicas": "3"}, "to 2"),
        ({"share.isolation.level": "none"}, "not allowed"),
        ({"share.auto.offset.reset": "first"}, "by_duration"),
    ],
)
def test_what_is_refused(tmp_path: Path, configs: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        NodeConfigSchema(node_config(tmp_path)).check(GROUP, configs, {})


def test_the_session_must_outlast_a_heartbeat_also_of_the_brokers_own(tmp_path: Path) -> None:
    schema = NodeConfigSchema(
        node_config(
            tmp_path,
            group__consumer__min__session__timeout__ms="1000",
            group__consumer__max__heartbeat__interval__ms="60000",
        )
    )
    schema.check(GROUP, {SESSION: "5001"}, {})
    with pytest.raises(ConfigError, match="greater than"):
        schema.check(GROUP, {SESSION: "5000"}, {})
    with pytest.raises(ConfigError, match="greater than"):
        schema.check(GROUP, {HEARTBEAT: "45000"}, {})


def test_a_group_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(ApiError) as refused:
        NodeConfigSchema(node_config(tmp_path)).check(ConfigResource(ConfigResourceType.GROUP, ""), {}, {})
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_what_a_group_works_with_lies_within_the_brokers_bounds(tmp_path: Path) -> None:
    broker = node_config(
        tmp_path, group__consumer__session__timeout__ms="50000", group__consumer__heartbeat__interval__ms="6000"
    ).values
    assert group_config_of({}, broker)[SESSION] == 50_000
    values = group_config_of({SESSION: "90000", INTERVAL: "7", "gone.in.this.release": "1"}, broker)
    assert (values[SESSION], values[HEARTBEAT], values[INTERVAL]) == (60_000, 6_000, 7)
    assert group_config_of({SESSION: "1"}, broker)[SESSION] == 45_000


def test_every_key_is_told_with_its_sources(tmp_path: Path) -> None:
    static = node_config(tmp_path, group__consumer__session__timeout__ms="50000")
    record = ConfigRecord(resource_type=32, resource_name="g", name=SESSION, value="60000")
    image = replay(MetadataImage.EMPTY, (VersionedRecord(record, 0),))
    configs = DescribedConfigs(static, static, image)
    told = {one.name: one for one in configs.group("g", Telling(synonyms=True, documentation=True))}
    assert told.keys() == {key.name for key in GROUP_CONFIG}
    assert [(s.name, s.value, s.source) for s in told[SESSION].synonyms] == [
        (SESSION, "60000", Source.GROUP),
        (f"group.{SESSION}", "50000", Source.STATIC),
        (f"group.{SESSION}", "45000", Source.DEFAULT),
    ]
    assert (told[SESSION].value, told[SESSION].config_source) == ("60000", Source.GROUP)
    assert (told[HEARTBEAT].value, told[HEARTBEAT].config_source) == ("5000", Source.DEFAULT)
    reset = told["share.auto.offset.reset"]
    assert [(s.name, s.value) for s in reset.synonyms] == [(reset.name, "latest")]
    assert not any(one.is_sensitive or one.read_only for one in told.values())
    other = {one.name: one for one in configs.group("h", Telling())}
    assert (other[SESSION].value, other[SESSION].config_source) == ("50000", Source.STATIC)
