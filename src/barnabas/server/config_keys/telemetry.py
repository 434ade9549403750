"""Keys of clients' metrics."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "telemetry.max.bytes",
        ConfigType.INT,
        1_048_576,
        "The largest push of a client's metrics that is taken, as it comes and decompressed, bytes.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "barnabas.client.telemetry.exporters",
        ConfigType.LIST,
        (),
        "Where clients' metrics go: Python classes as module:Class, or entry points in the group barnabas.telemetry; "
        "without any, clients are not asked for them. Barnabas's own key.",
    ),
)
