"""The configuration of a node: `server.properties`, checked as a whole (design D7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.core.authorizer.standard import parse_super_users
from barnabas.core.sasl.mechanisms import MECHANISMS
from barnabas.model.config import ConfigError, Password, parse_list, parse_properties
from barnabas.server.config_keys import TABLE as TABLE

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
AUTHORIZERS: Final = ("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.([^.]+)\.(.+)")
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


@dataclass(frozen=True)
class NodeConfig:
    """Everything a node was told, checked.

    values: typed, by key, defaults included; originals: the texts as given, listener-prefixed keys too; warnings:
    what an operator should read at the start.
    """

    values: Mapping[str, Any]
    originals: Mapping[str, str]
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    voters: tuple[Voter, ...]
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Path, overrides: Mapping[str, str] | None = None) -> NodeConfig:
        """Give the configuration in a file, `overrides` on top; ConfigError names what is wrong and what is right."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as e:
            raise ConfigError(f"cannot read {path}: {e.strerror}") from None
        return cls.parse({**parse_properties(text), **(overrides or {})})

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> NodeConfig:
        """Give the configuration that `properties` spell; ConfigError names what is wrong and what is right."""
        properties = _with_node_id(properties)
        values, unknown = TABLE.parse(properties)
        protocols = _protocols(values)
        listeners = _endpoints("listeners", values["listeners"], protocols)
        advertised = _endpoints("advertised.listeners", values["advertised.listeners"] or (), protocols)
        config = cls(
            values, dict(properties), listeners, advertised, _voters(values), tuple(_warnings(unknown, properties))
        )
        for check in _CHECKS:
            check(config)
        return config

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def node_id(self) -> int:
        """Give this node's id."""
        return int(self.values["node.id"])

    @property
    def is_broker(self) -> bool:
        """Say whether the node serves clients."""
        return "broker" in self.values["process.roles"]

    @property
    def is_controller(self) -> bool:
        """Say whether the node votes on metadata."""
        return "controller" in self.values["process.roles"]

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Give the data directories, absolute, in the order given."""
        dirs = self.values["log.dirs"] or self.values["log.dir"]
        return tuple(dict.fromkeys(str(Path(d).absolute()) for d in dirs))

    @property
    def metadata_log_dir(self) -> str:
        """Give the directory that holds the metadata log."""
        return str(Path(self.values["metadata.log.dir"] or self.log_dirs[0]).absolute())

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        """Give the names of the listeners that controllers serve."""
        return tuple(name.upper() for name in self.values["controller.listener.names"])

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """Give the listeners that clients use."""
        return tuple(e for e in self.listeners if e.listener_name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        """Give the listeners that the quorum uses."""
        return tuple(e for e in self.listeners if e.listener_name in self.controller_listener_names)

    @property
    def early_listener_names(self) -> frozenset[str]:
        """Give the names of the listeners that open before the ACLs are loaded (KIP-801)."""
        named = self.values["early.start.listeners"]
        return frozenset(self.controller_listener_names if named is None else (name.upper() for name in named))

    @property
    def inter_broker_listener_name(self) -> str:
        """Give the name of the listener between brokers."""
        name = self.values["inter.broker.listener.name"]
        if name:
            return str(name).upper()
        wanted = self.values["security.inter.broker.protocol"]
        return next((e.listener_name for e in self.broker_listeners if e.security_protocol == wanted), wanted)

    def security_protocol(self, listener_name: str) -> str:
        """Give what a listener speaks, here or on other nodes; ConfigError when nothing says so."""
        name = listener_name.upper()
        protocols = _protocols(self.values)
        if name not in protocols:
            raise ConfigError(f"listener.security.protocol.map does not say what listener {name} speaks")
        return protocols[name]

    def on_listener(self, listener_name: str, key: str) -> Any:
        """Give the value of `key` for one listener: `listener.name.<name>.<key>` before the plain one."""
        text = self.originals.get(f"listener.name.{listener_name.lower()}.{key}")
        return self.values[key] if text is None else TABLE[key].parse(text)

    def on_mechanism(self, listener_name: str, mechanism: str, key: str) -> Any:
        """Give the value of `key` for one SASL mechanism of a listener, the most specific one."""
        text = self.originals.get(f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{key}")
        return self.on_listener(listener_name, key) if text is None else TABLE[key].parse(text)

    def handler_of(self, listener_name: str, mechanism: str) -> str | None:
        """Give the class that checks the logins of a mechanism on a listener, None for the mechanism's own.

        `sasl.server.callback.handler.class` counts with the prefix of both, as in Kafka.
        """
        prefix = f"listener.name.{listener_name.lower()}.{mechanism.lower()}."
        return self.originals.get(f"{prefix}sasl.server.callback.handler.class", "").strip() or None

    def tls_settings(self, listener_name: str) -> dict[str, str]:
        """Give the `ssl.*` settings of one listener as texts, unset ones left out; secrets in clear."""
        found: dict[str, str] = {}
        for key in TABLE:
            if key.name.startswith("ssl."):
                value = self.on_listener(listener_name, key.name)
                text = value.secret if isinstance(value, Password) else key.format(value)
                if text is not None:
                    found[key.name] = text
        return found


def _with_node_id(properties: Mapping[str, str]) -> dict[str, str]:
    out = dict(properties)
    broker_id = out.get("broker.id")
    if "node.id" not in out and broker_id is not None:
        out["node.id"] = broker_id
    elif broker_id is not None and broker_id.strip() != out["node.id"].strip():
        raise ConfigError(f"broker.id={broker_id} and node.id={out['node.id']} must agree; set node.id only")
    return out


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


def _protocols(values: Mapping[str, Any]) -> dict[str, str]:
    protocols = _protocol_map(values["listener.security.protocol.map"])
    for name in values["controller.listener.names"]:
        protocols.setdefault(name.upper(), "PLAINTEXT")
    return protocols


def _endpoints(key: str, items: list[str] | tuple[str, ...], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
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


def _voters(values: Mapping[str, Any]) -> tuple[Voter, ...]:
    found = []
    for item in values["controller.quorum.voters"]:
        match = _VOTER.fullmatch(item)
        if match is None:
            raise ConfigError(f"controller.quorum.voters: {item!r} is not id@host:port")
        found.append(Voter(int(match[1]), match[2].strip("[]"), int(match[3])))
    return tuple(found)


def _warnings(unknown: Mapping[str, str | None], properties: Mapping[str, str]) -> list[str]:
    out = []
    for name, nearest in unknown.items():
        prefixed = _LISTENER_PREFIX.fullmatch(name)
        if prefixed and (prefixed[2] in TABLE or prefixed[2].partition(".")[2] in TABLE):
            continue
        hint = f"; did you mean {nearest}?" if nearest else ""
        out.append(f"{name} is not a setting of Kafka's and has no effect{hint}")
    idle = sorted(n for n in properties if (key := TABLE.get(n)) is not None and not key.acted_on)
    if idle:
        out.append(f"settings of Kafka's that have no effect here: {', '.join(idle)}")
    return out


def _check_roles(config: NodeConfig) -> None:
    if not config["process.roles"]:
        raise ConfigError("process.roles is empty; want broker, controller or broker,controller")
    if not config["controller.listener.names"]:
        raise ConfigError("controller.listener.names is empty; name the listener that controllers serve")


def _check_listeners(config: NodeConfig) -> None:
    names = {e.listener_name for e in config.listeners}
    controllers = set(config.controller_listener_names)
    if config.is_controller and not controllers & names:
        raise ConfigError(
            f"listeners has none of controller.listener.names ({', '.join(sorted(controllers))}), "
            "and a controller must listen on one"
        )
    if config.is_broker and not config.broker_listeners:
        raise ConfigError("listeners has no listener for clients; add one that is not in controller.listener.names")
    strangers = {e.listener_name for e in config.advertised} - names
    if strangers:
        raise ConfigError(f"advertised.listeners: {sorted(strangers)[0]} does not stand in listeners")
    for name in config["early.start.listeners"] or ():
        if name.upper() not in names | controllers:
            raise ConfigError(f"early.start.listeners: {name} is neither in listeners nor in controller.listener.names")


def _check_security(config: NodeConfig) -> None:
    authorizer = config["authorizer.class.name"]
    if authorizer not in AUTHORIZERS and authorizer.startswith(("org.apache.kafka.", "kafka.")):
        raise ConfigError(
            f"authorizer.class.name: {authorizer!r} is not known here; want {AUTHORIZERS[1]}, a Python class as "
            "module:Class, or nothing for no authorization"
        )
    try:
        parse_super_users(config["super.users"])
    except ValueError as e:
        raise ConfigError(str(e)) from None
    for endpoint in config.listeners:
        if not endpoint.sasl:
            continue
        offered = config.on_listener(endpoint.listener_name, "sasl.enabled.mechanisms")
        for mechanism in offered:
            if mechanism not in MECHANISMS:
                raise ConfigError(
                    f"sasl.enabled.mechanisms: listener {endpoint.listener_name} offers {mechanism}, "
                    f"which is not served here; want some of {', '.join(MECHANISMS)}"
                )


def _check_quorum(config: NodeConfig) -> None:
    is_named = config.node_id in {v.id for v in config.voters}
    if is_named and not config.is_controller:
        raise ConfigError(
            f"controller.quorum.voters names this node, {config.node_id}, which is no controller: give it another "
            "node.id, or process.roles=broker,controller"
        )
    if config.is_controller and config.voters and not is_named:
        raise ConfigError(
            f"controller.quorum.voters does not name this controller; add {config.node_id}@host:port, "
            "or leave the key out and format with --standalone"
        )


_CHECKS: Final = (_check_roles, _check_listeners, _check_security, _check_quorum)
