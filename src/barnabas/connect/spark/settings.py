"""What of a worker's configuration matters to tasks: the client settings of each, Spark's, and where scratch goes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.connect.config import WorkerConfig
from barnabas.core.connect.ids import ConnectorTaskId

GROUP_PREFIX: Final = "connect-"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """scratch: a folder for the files of a run, that Spark's driver and executors reach."""

    worker: WorkerConfig
    scratch: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))

    @classmethod
    def of(cls, worker: WorkerConfig) -> SparkSettings:
        """Give the settings of a worker, with the folder that it names for checkpoints, if it names one."""
        folder: str | None = worker["barnabas.spark.checkpoint.dir"]
        return cls(worker) if folder is None else cls(worker, Path(folder))

    @property
    def master(self) -> str:
        """Give Spark's master."""
        return self.worker.text("barnabas.spark.master")

    @property
    def spark(self) -> Mapping[str, str]:
        """Give Spark's own settings."""
        return self.worker.spark_conf

    @property
    def graceful_ms(self) -> int:
        """Give how long a task may take to reach a batch boundary when it is stopped."""
        return self.worker.integer("task.shutdown.graceful.timeout.ms")

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """Give a configuration with its references to secrets replaced; ConfigError for those that are not allowed."""
        return self.worker.secrets.resolve_all(config)

    def consumer(self, task: ConnectorTaskId, connector_config: Mapping[str, str]) -> dict[str, str]:
        """Give the settings that a sink's task reads with, as Connect puts them together (KIP-458)."""
        own = {"client.id": f"connector-consumer-{task}", "group.id": group_of(task.connector)}
        return own | self.worker.consumer_properties() | self._overrides("consumer", connector_config)

    def producer(self, task: ConnectorTaskId, connector_config: Mapping[str, str]) -> dict[str, str]:
        """Give the settings that a source's task writes with."""
        own = {"client.id": f"connector-producer-{task}"}
        return own | self.worker.producer_properties() | self._overrides("producer", connector_config)

    def admin(self, connector: str, connector_config: Mapping[str, str]) -> dict[str, str]:
        """Give the settings that groups and topics of a connector are looked after with."""
        own = {"client.id": f"connector-adminclient-{connector}"}
        return own | self.worker.admin_properties() | self._overrides("admin", connector_config)

    def _overrides(self, kind: str, connector_config: Mapping[str, str]) -> dict[str, str]:
        overrides = with_prefix(connector_config, f"{kind}.override.")
        self.resolved(overrides)  # clients resolve any reference, where they connect: here is who may have them do it
        return overrides


def group_of(connector: str, connector_config: Mapping[str, str] | None = None) -> str:
    """Give the consumer group of a sink."""
    return (connector_config or {}).get("consumer.override.group.id", GROUP_PREFIX + connector)


def with_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Give the settings behind a prefix, without it."""
    return {key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix)}
