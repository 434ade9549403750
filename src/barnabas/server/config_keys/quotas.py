"""Keys of client quotas."""

from typing import Final

from barnabas.model.config import ConfigKey, ConfigType, Importance, at_least

KEYS: Final = (
    ConfigKey(
        "quota.window.num",
        ConfigType.INT,
        11,
        "How many samples a client quota is worked out from.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "quota.window.size.seconds",
        ConfigType.INT,
        1,
        "How long one sample of a client quota is, seconds.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "controller.quota.window.num",
        ConfigType.INT,
        11,
        "How many samples a controller mutation quota is worked out from.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "How long one sample of a controller mutation quota is, seconds.",
        importance=Importance.LOW,
        validator=at_least(1),
    ),
)
