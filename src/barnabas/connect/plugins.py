"""What a worker can run, as its herder and its REST API ask for it (`herder_port.Plugins`).

Configurations name a class whole, or by its last part, with or without what kind of thing it is:
`org.apache.kafka.connect.file.FileStreamSinkConnector`, `FileStreamSinkConnector`, `FileStreamSink`; one that another
package brings also by the name of its entry point in the group `barnabas.connectors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.connect.config import WorkerConfig
from barnabas.connect.connector import Connector
from barnabas.connect.herder_port import BadRequestError, ConfigInfos, ConnectorType, NotFoundError, PluginInfo
from barnabas.connect.plugin import CONNECTORS, Catalogue, Kind, Plugin
from barnabas.connect.shipped_plugins import catalogue
from barnabas.connect.validation import Validation, settings_of
from barnabas.connect.wanted_versions import wrong_versions
from barnabas.core.connect.versions import BadVersionError
from barnabas.model.config import ConfigError


class WorkerPlugins:
    """The plug-ins of one worker. known: all of them; whatever is shipped and installed unless given."""

    def __init__(self, worker: WorkerConfig, known: Catalogue | None = None) -> None:
        self._known = catalogue() if known is None else known
        self._validation = Validation(self._known, worker)

    def all(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        """Give every plug-in, or the connectors alone."""
        found = self._known.of(*CONNECTORS) if connectors_only else self._known.of()
        return [PluginInfo(each.class_name, each.kind.label, each.version) for each in found]

    def config_definitions(self, plugin: str, version: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Give the settings of a plug-in as Connect's JSON; NotFoundError, BadRequestError for other versions."""
        found = self._known.find(plugin)
        if found is None:
            raise NotFoundError(f"Unknown plugin {plugin}.")
        try:
            wrong = found.lacks(version)
        except BadVersionError as e:
            raise BadRequestError(f"version: {e}") from None
        if wrong is not None:
            raise BadRequestError(wrong)
        return [each.as_json() for each in settings_of(found)]

    async def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """Look at a connector's configuration; BadRequestError when it names no class that is here.

        In a thread of its own, for connectors' own checks may take their time.
        """
        return await asyncio.to_thread(self._validation.validate, config)

    def connector_type(self, config: Mapping[str, str]) -> ConnectorType:
        """Say which way the configured class moves data; UNKNOWN for a class that is not here."""
        found = self._connector(config)
        return ConnectorType.UNKNOWN if found is None else _TYPES[found.kind]

    def knows(self, config: Mapping[str, str]) -> bool:
        """Say whether the class that a connector's configuration names is one of this worker's."""
        return self._connector(config) is not None

    def class_name(self, config: Mapping[str, str]) -> str | None:
        """Give the whole name of the class that a connector's configuration names, None for one that is not here."""
        found = self._connector(config)
        return None if found is None else found.class_name

    def connector_version(self, config: Mapping[str, str]) -> str | None:
        """Give the version of the class that a connector's configuration names, None for one that is not here."""
        found = self._connector(config)
        return None if found is None else found.version

    def connector_class(self, config: Mapping[str, str]) -> type[Connector]:
        """Give the class that a connector's configuration means.

        ConfigError when there is none, or when any class that it names is here in other versions than it asks for.
        """
        try:
            made_by: type[Connector] = self._validation.connector(config).made_by
            wrong = wrong_versions(self._known, config)
        except BadRequestError as e:
            raise ConfigError(str(e)) from None
        if wrong:
            raise ConfigError("; ".join(wrong))
        return made_by

    def _connector(self, config: Mapping[str, str]) -> Plugin | None:
        return self._known.find(config.get("connector.class"), *CONNECTORS)


_TYPES = {Kind.SINK: ConnectorType.SINK, Kind.SOURCE: ConnectorType.SOURCE}
