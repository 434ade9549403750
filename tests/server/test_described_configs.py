from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.server import loggers
from barnabas.server.authorization import AUDIT_LOGGER
from barnabas.server.described_configs import DescribedConfigs, Source, Telling
from barnabas.wire.messages.describe_configs import DescribeConfigsResourceResult
from barnabas.wire.records.config_record import ConfigRecord

from .controllers import node_config

ALL = Telling(synonyms=True, documentation=True)


def image(*overrides: tuple[int, str, str, str]) -> MetadataImage:
    records = (
        ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
        for kind, resource, name, value in overrides
    )
    return replay(MetadataImage.EMPTY, (VersionedRecord(r, 0) for r in records))


def described(
    tmp_path: Path, *overrides: tuple[int, str, str, str], **settings: str
) -> dict[str, DescribeConfigsResourceResult]:
    static = node_config(tmp_path, **settings)
    return {e.name: e for e in DescribedConfigs(static, static, image(*overrides)).broker(ALL)}


def test_sources_stand_from_strong_to_weak(tmp_path: Path) -> None:
    found = described(
        tmp_path,
        (4, "1", "log.cleaner.threads", "4"),
        (4, "", "log.cleaner.threads", "3"),
        (4, "2", "log.cleaner.threads", "9"),
        log__cleaner__threads="2",
    )["log.cleaner.threads"]
    assert [(s.value, s.source) for s in found.synonyms] == [
        ("4", Source.BROKER),
        ("3", Source.CLUSTER_DEFAULT),
        ("2", Source.STATIC),
        ("1", Source.DEFAULT),
    ]
    assert found.config_source == Source.BROKER
    assert not found.read_only


def test_secrets_and_strangers_are_not_told(tmp_path: Path) -> None:
    found = described(tmp_path, ssl__key__password="hunter2", my__own__setting="hunter2", super__users="User:a")
    for name in ("ssl.key.password", "my.own.setting", "super.users"):
        assert found[name].is_sensitive
        assert found[name].value is None
        assert all(s.value is None for s in found[name].synonyms)
    assert "hunter2" not in repr(found)


def test_a_weaker_unit_counts_only_beneath_the_key_itself(tmp_path: Path) -> None:
    found = described(tmp_path, log__retention__hours="5")
    assert found["log.retention.ms"].synonyms == []
    assert [s.name for s in found["log.retention.hours"].synonyms] == ["log.retention.hours"] * 2
    found = described(tmp_path, log__retention__hours="5", log__retention__ms="7")
    assert [s.name for s in found["log.retention.ms"].synonyms] == ["log.retention.ms", *["log.retention.hours"] * 2]


def test_a_topic_shows_its_own_settings_over_the_brokers(tmp_path: Path) -> None:
    static = node_config(tmp_path, log__segment__bytes="2000000")
    configs = DescribedConfigs(static, static, image((2, "t", "segment.bytes", "3000000")))
    of_topic = {e.name: e for e in configs.topic("t", ALL)}
    other = {e.name: e for e in configs.topic("u", ALL)}
    assert (of_topic["segment.bytes"].value, of_topic["segment.bytes"].config_source) == ("3000000", Source.TOPIC)
    assert (other["segment.bytes"].value, other["segment.bytes"].config_source) == ("2000000", Source.STATIC)
    assert of_topic["segment.bytes"].documentation


def test_synonyms_and_documentation_come_only_when_asked_for(tmp_path: Path) -> None:
    static = node_config(tmp_path)
    entries = list(DescribedConfigs(static, static, image()).topic("t", Telling()))
    assert entries
    assert all(e.synonyms == [] and e.documentation is None for e in entries)


def test_a_logger_takes_a_level_and_gives_it_back() -> None:
    name = AUDIT_LOGGER
    before = loggers.levels()[name]
    loggers.set_level(name, "TRACE")
    try:
        assert loggers.levels()[name] == "TRACE"
    finally:
        loggers.set_level(name, None)
    assert loggers.levels()[name] == before
    with pytest.raises(ValueError):
        loggers.set_level(name, "LOUD")
    with pytest.raises(ValueError):
        loggers.set_level("nobody", "INFO")
