"""Topic configuration: parsing, refusals that say what is right, and the server's keys as defaults."""

from __future__ import annotations

import pytest

from barnabas.model.config import ConfigError
from barnabas.storage.log_config import TOPIC_CONFIG, LogConfig, topic_defaults, validate_topic_config
from barnabas.wire.compression import Compression


def test_defaults_are_kafkas() -> None:
    assert LogConfig.of({}) == LogConfig()


def test_overrides_beat_the_servers_defaults() -> None:
    defaults = topic_defaults({"log.retention.hours": 2, "log.segment.bytes": "2097152", "message.max.bytes": 5000})
    config = LogConfig.of({"segment.bytes": "1048576", "compression.type": "zstd"}, defaults)
    assert (config.retention_ms, config.segment_bytes, config.max_message_bytes) == (7_200_000, 1_048_576, 5000)
    assert (config.compression, config.compression_level) == (Compression.ZSTD, 3)
    assert config.overrides == {"segment.bytes": "1048576", "compression.type": "zstd"}


@pytest.mark.parametrize(
    ("server", "retention_ms"),
    [
        ({"log.retention.ms": 5, "log.retention.minutes": 1, "log.retention.hours": 1}, "5"),
        ({"log.retention.ms": None, "log.retention.minutes": 1, "log.retention.hours": 1}, "60000"),
        ({"log.retention.hours": 1}, "3600000"),
        ({"log.retention.hours": -1}, "-1"),
        ({"log.retention.minutes": "-1"}, "-1"),
    ],
)
def test_the_strongest_synonym_wins(server: dict[str, object], retention_ms: str) -> None:
    assert topic_defaults(server)["retention.ms"] == retention_ms


def test_lists_come_as_texts() -> None:
    assert topic_defaults({"log.cleanup.policy": ["compact", "delete"]}) == {"cleanup.policy": "compact,delete"}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("retention.msx", "1", r"retention.msx is not a topic setting; did you mean retention.ms\?"),
        ("retention.ms", "-2", "retention.ms: '-2' is not allowed"),
        ("retention.ms", "abc", "not a whole number"),
        ("segment.bytes", "1000", "at least 1048576"),
        ("cleanup.policy", "shred", "want compact, delete"),
        ("compression.type", "rar", "uncompressed, zstd"),
        ("compression.gzip.level", "0", "from 1 to 9"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("leader.replication.throttled.replicas", "1-2", "partition:broker"),
        ("min.insync.replicas", "0", "at least 1"),
        ("remote.storage.enable", "true", "not offered"),
        ("message.timestamp.type", "Whenever", "CreateTime"),
    ],
)
def test_bad_values_are_refused_with_what_is_right(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        validate_topic_config({key: value})


def test_lags_must_not_cross() -> None:
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms"):
        validate_topic_config({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_throttled_replicas_and_no_policy_are_allowed() -> None:
    validate_topic_config({"leader.replication.throttled.replicas": "0:1,1:2", "cleanup.policy": ""})
    validate_topic_config({"follower.replication.throttled.replicas": "*"})
    assert LogConfig.of({"cleanup.policy": ""}).delete is False


def test_a_compacted_log_rolls_in_time_for_its_lag() -> None:
    policy = {"cleanup.policy": "compact", "max.compaction.lag.ms": "5000"}
    assert LogConfig.of(policy).max_segment_ms == 5000
    assert LogConfig.of({"max.compaction.lag.ms": "5000"}).max_segment_ms == LogConfig().segment_ms


def test_every_key_is_documented() -> None:
    assert [key.name for key in TOPIC_CONFIG if not key.doc] == []
