"""Where a node listens and where voters are, as `listeners` and `controller.quorum.voters` spell it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.model.config import ConfigError, parse_list

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT: Final = re.compile(r"([^:/]+)://(\[[0-9a-fA-F:.%]+\]|[^:/\[\]]*):(-?\d+)")
_VOTER: Final = re.compile(r"(\d+)@(\[[0-9a-fA-F:.%]+\]|[^:\[\]]+):(\d+)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener: its name, what it speaks, and where. An empty host is every interface; port 0 is any free one."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        """Say whether it speaks TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Say whether its clients log in by SASL."""
        return self.security_protocol.startswith("SASL_")


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter of a static quorum."""

    id: int
    host: str
    port: int


def _protocol_map(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in parse_list(text):
        name, _, protocol = item.partition(":")
        if protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}"
            )
        found[name.upper()] = protocol.upper()
    return found


def protocols_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Give what each listener speaks, by its name; ConfigError for what is no protocol."""
    protocols = _protocol_map(values["listener.security.protocol.map"])
    for name in values["controller.listener.names"]:
        protocols.setdefault(name.upper(), "PLAINTEXT")
    return protocols


def parse_endpoints(key: str, items: Iterable[str], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Give the listeners that the value of `key` lists; ConfigError names what is wrong with it."""
    found = []
    for item in items:
        match = _ENDPOINT.fullmatch(item)
        if match is None:
            raise ConfigError(f"{key}: {item!r} is not NAME://host:port")
        name, host, port = match[1].upper(), match[2].strip("[]"), int(match[3])
        if name not in protocols:
            raise ConfigError(
                f"{key}: nothing says what listener {name} speaks; "
                f"add {name}:PROTOCOL to listener.security.protocol.map"
            )
        if not 0 <= port <= 65535:
            raise ConfigError(f"{key}: {item!r} has no port from 0 to 65535")
        found.append(Endpoint(name, protocols[name], host, port))
    names = [e.listener_name for e in found]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice:
        raise ConfigError(f"{key}: listener {twice} stands there twice; give each its own name")
    return tuple(found)


def parse_voters(items: Iterable[str]) -> tuple[Voter, ...]:
    """Give the voters of `controller.quorum.voters`; ConfigError for what is none."""
    found = []
    for item in items:
        match = _VOTER.fullmatch(item)
        if match is None:
            raise ConfigError(f"controller.quorum.voters: {item!r} is not id@host:port")
        found.append(Voter(int(match[1]), match[2].strip("[]"), int(match[3])))
    return tuple(found)
