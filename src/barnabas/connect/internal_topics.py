"""The topics that a worker keeps for itself, and those that connectors have for their offsets, as its settings say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.connect.config import WorkerConfig
from barnabas.connect.topic_log import InternalTopic

_PURPOSES: Final[Mapping[str, str]] = {
    "config": "connector configurations",
    "offset": "source connector offsets",
    "status": "connector and task statuses",
}


def internal_topic(config: WorkerConfig, kind: str) -> InternalTopic:
    """Give one of a worker's own topics. kind: config, offset or status."""
    prefix = f"{kind}.storage."
    return InternalTopic(
        config.text(prefix + "topic"),
        prefix + "topic",
        _PURPOSES[kind],
        1 if kind == "config" else config.integer(prefix + "partitions"),
        config.integer(prefix + "replication.factor"),
        config.topic_settings(prefix),
        single=kind == "config",
    )


def connector_offsets_topic(config: WorkerConfig, name: str) -> InternalTopic:
    """Give the topic that a connector wants for its offsets, made like the worker's own (KIP-618)."""
    prefix = "offset.storage."
    return InternalTopic(
        name,
        "offsets.storage.topic",
        _PURPOSES["offset"],
        config.integer(prefix + "partitions"),
        config.integer(prefix + "replication.factor"),
        config.topic_settings(prefix),
    )
