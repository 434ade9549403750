"""The configuration of a node: `server.properties`, checked as a whole (design D7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from barnabas.model.config import ConfigError, Password, parse_properties
from barnabas.model.protocol_version import ProtocolVersion
from barnabas.net.zookeeper.config_keys import CONNECT
from barnabas.server.authorizer_names import ACL_AUTHORIZER, ACL_STORE_PREFIX, ACL_STORE_URL
from barnabas.server.authorizer_names import AUTHORIZERS as AUTHORIZERS
from barnabas.server.config_checks import check
from barnabas.server.config_keys import TABLE as TABLE
from barnabas.server.config_keys.general import NO_ID
from barnabas.server.config_warnings import warnings_of
from barnabas.server.endpoints import PROTOCOLS as PROTOCOLS
from barnabas.server.endpoints import Endpoint as Endpoint
from barnabas.server.endpoints import Voter, parse_endpoints, parse_voters, protocols_of

_NEITHER: Final = (
    "neither process.roles nor zookeeper.connect is set: want process.roles=broker, controller or broker,controller, "
    "or, for a cluster in ZooKeeper mode, zookeeper.connect=host:port,host:port/chroot"
)


@dataclass(frozen=True)
class NodeConfig:
    """Everything a node was told, checked.

    values: typed, by key, defaults included; originals: the texts as given, listener-prefixed keys too; warnings:
    what an operator should read at the start; given_id: of a broker whose file sets none (`has_id`), once it is known.
    """

    values: Mapping[str, Any]
    originals: Mapping[str, str]
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    voters: tuple[Voter, ...]
    warnings: tuple[str, ...] = ()
    given_id: int | None = None

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
        values, unknown = TABLE.parse(_of_its_mode(properties))
        protocols = protocols_of(values)
        listeners = parse_endpoints("listeners", values["listeners"], protocols)
        advertised = parse_endpoints("advertised.listeners", values["advertised.listeners"] or (), protocols)
        voters = parse_voters(values["controller.quorum.voters"] if values["process.roles"] else ())
        config = cls(values, dict(properties), listeners, advertised, voters)
        check(config)
        return replace(config, warnings=tuple(warnings_of(config, unknown)))

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def has_id(self) -> bool:
        """Say whether this node's id is known; where not, a broker of ZooKeeper mode is given one at its start."""
        return self.node_id != NO_ID

    @property
    def node_id(self) -> int:
        """Give this node's id, NO_ID while it has none."""
        return int(self.values["node.id"]) if self.given_id is None else self.given_id

    @property
    def is_zookeeper_mode(self) -> bool:
        """Say whether the cluster's metadata is kept in ZooKeeper, and not in a log of its own."""
        return not self.values["process.roles"]

    @property
    def is_broker(self) -> bool:
        """Say whether the node serves clients."""
        return "broker" in self.values["process.roles"] or self.is_zookeeper_mode

    @property
    def is_controller(self) -> bool:
        """Say whether the node votes on metadata. In ZooKeeper mode none does: any broker may be elected."""
        return "controller" in self.values["process.roles"]

    @property
    def protocol_version(self) -> ProtocolVersion:
        """Give the age of the oldest brokers that there may be; of ZooKeeper mode only."""
        return ProtocolVersion.parse(self.values["inter.broker.protocol.version"])

    @property
    def keeps_acls_in_zookeeper(self) -> bool:
        """Say whether the authorizer decides by rules that stand in ZooKeeper, in either mode (A-34)."""
        return bool(self.values["authorizer.class.name"] == ACL_AUTHORIZER)

    @property
    def acl_store(self) -> Mapping[str, str]:
        """Give the properties of the ZooKeeper that AclAuthorizer's rules are in: the node's own, and over them those
        with `authorizer.` before them; `authorizer.zookeeper.url` stands for zookeeper.connect there."""
        prefixed = [(k, v) for k, v in self.originals.items() if k.startswith(ACL_STORE_PREFIX)]
        own = {CONNECT if k == ACL_STORE_URL else k.removeprefix("authorizer."): v for k, v in prefixed}
        return {**self.originals, **own}

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

    @property
    def controller_channel_listener(self) -> str:
        """Give the name of the listener by which this node and the active controller reach each other.

        In ZooKeeper mode the controller is a broker: `control.plane.listener.name` (KIP-291), else as between brokers.
        """
        if not self.is_zookeeper_mode:
            return self.controller_listener_names[0]
        name = self.values["control.plane.listener.name"]
        return str(name).upper() if name else self.inter_broker_listener_name

    @property
    def controller_channel_mechanism(self) -> str:
        """Give the SASL mechanism by which this node would log in there."""
        by = "inter.broker" if self.is_zookeeper_mode else "controller"
        return str(self.on_listener(self.controller_channel_listener, f"sasl.mechanism.{by}.protocol"))

    def security_protocol(self, listener_name: str) -> str:
        """Give what a listener speaks, here or on other nodes; ConfigError when nothing says so."""
        name = listener_name.upper()
        protocols = protocols_of(self.values)
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


def _of_its_mode(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Give properties with what only one mode demands filled in for the other; ConfigError when there is no mode."""
    if properties.get("process.roles", "").strip():
        return properties
    if not properties.get(CONNECT, "").strip():
        raise ConfigError(_NEITHER)
    return {"process.roles": "", "controller.listener.names": "", "node.id": str(NO_ID), **properties}
