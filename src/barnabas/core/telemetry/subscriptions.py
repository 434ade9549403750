"""Subscriptions to clients' metrics (KIP-714): which metrics, how often, of which clients.

Each is a resource of the type CLIENT_METRICS with three keys. `match` holds `selector=regular expression` pairs
that all have to match; without any, every client does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.model.config import ConfigKey, ConfigTable, ConfigType
from barnabas.wire.errors import ApiError, ErrorCode

INTERVAL_MS: Final = "interval.ms"
METRICS: Final = "metrics"
MATCH: Final = "match"
ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
_MIN_INTERVAL_MS: Final = 100
_MAX_INTERVAL_MS: Final = 3_600_000


def _no_empty_item(value: Iterable[Any]) -> str | None:
    return "no item may be empty" if "" in value else None


CLIENT_METRICS_CONFIG: Final = ConfigTable(
    ConfigKey(
        METRICS,
        ConfigType.LIST,
        (),
        "The metrics that clients are to push: what their names begin with, or * for all of them.",
        validator=_no_empty_item,
    ),
    ConfigKey(INTERVAL_MS, ConfigType.INT, DEFAULT_INTERVAL_MS, "How often clients are to push them, ms."),
    ConfigKey(
        MATCH,
        ConfigType.LIST,
        (),
        "The clients that are to do so: selector=regular expression pairs that all have to match.",
        validator=_no_empty_item,
    ),
)


class ClientAttributes(NamedTuple):
    """What clients are selected by, named as the selectors are; None where it is not known."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    client_source_address: str | None
    client_source_port: str | None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the clients that `match` are to push. match: by selector, patterns of the whole text."""

    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Subscription:
        """Give the subscription that the configs of a resource spell; ConfigError or ApiError when they are wrong."""
        values = CLIENT_METRICS_CONFIG.parse(configs).values
        return cls(frozenset(values[METRICS]), values[INTERVAL_MS], _patterns(values[MATCH]))

    def applies_to(self, client: ClientAttributes) -> bool:
        """Say whether the client is among those that shall push."""
        return all(
            attribute is not None and pattern.fullmatch(attribute) is not None
            for pattern, attribute in ((pattern, getattr(client, name)) for name, pattern in self.match.items())
        )


def check_subscription(name: str, configs: Mapping[str, str]) -> None:
    """ConfigError or ApiError when there may be no such subscription."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a subscription to clients' metrics needs a name")
    for key in configs:
        if key not in CLIENT_METRICS_CONFIG:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{key} is not a key of client metrics: want {', '.join(key.name for key in CLIENT_METRICS_CONFIG)}",
            )
    subscription = Subscription.of(configs)
    if not _MIN_INTERVAL_MS <= subscription.interval_ms <= _MAX_INTERVAL_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{INTERVAL_MS}: {subscription.interval_ms} is not allowed; want {_MIN_INTERVAL_MS} to {_MAX_INTERVAL_MS}",
        )


def _patterns(pairs: Iterable[str]) -> dict[str, re.Pattern[str]]:
    found = {}
    for pair in pairs:
        selector, _, pattern = (part.strip() for part in pair.partition("="))
        try:
            if selector not in ClientAttributes._fields or not pattern or "=" in pattern:
                raise ValueError(f"want <selector>=<pattern>, selectors are {', '.join(ClientAttributes._fields)}")
            found[selector] = re.compile(pattern, re.ASCII)
        except (ValueError, re.error) as e:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{MATCH}: {pair!r} is not a client pattern: {e}") from None
    return found
