"""Logs and the node itself follow the configurations of the metadata log (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.config import ConfigError
from barnabas.server.config import NodeConfig
from barnabas.storage.log_config import LogConfig, topic_defaults
from barnabas.storage.log_dirs import LogDirs

log = structlog.get_logger("kafka.server.configs")


class ConfigPublisher:
    """Works out the configuration of topics and of this node, and hands on what has changed.

    Topics without settings of their own share one configuration, however many there are.
    """

    def __init__(self, static: NodeConfig, log_dirs: LogDirs, changed: Callable[[NodeConfig], None]) -> None:
        """static: as the node was started; changed: told the node's configuration whenever it is another."""
        self._static = static
        self._log_dirs = log_dirs
        self._changed = changed
        self._defaults = topic_defaults(static.values)
        self._usual = LogConfig.of({}, self._defaults)
        self._own: dict[str, LogConfig] = {}
        log_dirs.topic_config = self.topic_config

    def topic_config(self, topic: str) -> LogConfig:
        """Give a topic's configuration: its own settings over the node's defaults."""
        return self._own.get(topic, self._usual)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the configurations of a delta."""
        ours = (str(self._static.node_id), "")
        for resource in delta.configs:
            if resource.type is ConfigResourceType.TOPIC:
                self._topic(resource.name, dict(image.configs.get(resource)))
        if any(r.type is ConfigResourceType.BROKER and r.name in ours for r in delta.configs):
            self._node(image)

    def _topic(self, topic: str, overrides: dict[str, str]) -> None:
        if overrides:
            self._own[topic] = LogConfig.of(overrides, self._defaults)
        else:
            self._own.pop(topic, None)
        self._log_dirs.update_config(topic, self.topic_config(topic))

    def _node(self, image: MetadataImage) -> None:
        broker = ConfigResourceType.BROKER
        properties = dict(self._static.originals)
        properties.update(image.configs.get(ConfigResource(broker, "")))
        properties.update(image.configs.get(ConfigResource(broker, str(self._static.node_id))))
        try:
            config = replace(NodeConfig.parse(properties), given_id=self._static.given_id)
        except ConfigError as e:
            log.error("dynamic configuration is not taken up", why=str(e))
            return
        self._changed(config)
        defaults = topic_defaults(config.values)
        if defaults != self._defaults:
            self._defaults = defaults
            self._usual = LogConfig.of({}, defaults)
            self._own = {topic: LogConfig.of(own.overrides, defaults) for topic, own in self._own.items()}
            for topic in {tp.topic for tp in self._log_dirs.logs}:
                self._log_dirs.update_config(topic, self.topic_config(topic))
