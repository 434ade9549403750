"""What must hold between the settings of a node in ZooKeeper mode, as in Kafka 3.9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.config import ConfigError
from barnabas.net.zookeeper.config_keys import CONNECT
from barnabas.net.zookeeper.settings import parse_connect
from barnabas.server.authorizer_names import ACL_AUTHORIZER, ACL_STORE_URL, STANDARD_AUTHORIZER

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

_CONTROL_PLANE: Final = "control.plane.listener.name"
_GENERATION: Final = "broker.id.generation.enable"
_MAX_ID: Final = "reserved.broker.max.id"


def check(config: NodeConfig) -> None:
    """Raise ConfigError, which names what is wrong and what would be right, unless a broker can be so."""
    parse_connect(config[CONNECT])
    _check_id(config)
    if config["controller.listener.names"]:
        raise ConfigError(
            "controller.listener.names is set, and no listener is the controllers' in ZooKeeper mode: take it out, or "
            "set process.roles for KRaft"
        )
    if not config.protocol_version.topic_ids:
        raise ConfigError(
            f"inter.broker.protocol.version={config.protocol_version}: topics have ids here, which came with 2.8; "
            "raise it on all brokers of the cluster before one of these is among them"
        )
    _check_authorizer(config)
    _check_listeners(config)


def _check_id(config: NodeConfig) -> None:
    highest = config[_MAX_ID]
    if not config[_GENERATION]:
        if not config.has_id:
            raise ConfigError(
                f"broker.id is not set, and {_GENERATION}=false: set it, or have ZooKeeper give it. An id that this "
                "broker had before stands in meta.properties of its data directories"
            )
    elif config.node_id > highest:
        raise ConfigError(
            f"broker.id={config.node_id} is above {_MAX_ID}={highest}, where the ids begin that ZooKeeper gives: raise "
            f"{_MAX_ID}, or set {_GENERATION}=false on all brokers. If ZooKeeper gave this broker its id, take "
            "broker.id out: it stands in meta.properties of its data directories"
        )


def _check_authorizer(config: NodeConfig) -> None:
    if config["authorizer.class.name"] == STANDARD_AUTHORIZER:
        raise ConfigError(
            f"authorizer.class.name={STANDARD_AUTHORIZER} keeps its ACLs in the metadata log, and in ZooKeeper mode "
            f"there is none: want {ACL_AUTHORIZER}, which keeps them in ZooKeeper"
        )
    elsewhere = config.originals.get(ACL_STORE_URL)
    if config.keeps_acls_in_zookeeper and elsewhere is not None and elsewhere.strip() != config[CONNECT]:
        raise ConfigError(
            f"{ACL_STORE_URL}={elsewhere}: in ZooKeeper mode the ACLs are where the rest of the cluster is; take it "
            "out, or say the same as zookeeper.connect"
        )


def _check_listeners(config: NodeConfig) -> None:
    names = [e.listener_name for e in config.advertised or config.listeners]
    inter_broker, control_plane = config.inter_broker_listener_name, config[_CONTROL_PLANE]
    if inter_broker not in names:
        raise ConfigError(
            f"the brokers' own listener, {inter_broker}, is none of those that this one advertises: set "
            f"inter.broker.listener.name to one of {', '.join(names)}"
        )
    if control_plane and control_plane.upper() not in names:
        raise ConfigError(f"{_CONTROL_PLANE}={control_plane}: want one of the listeners, {', '.join(names)}")
    if control_plane and control_plane.upper() == inter_broker:
        raise ConfigError(
            f"{_CONTROL_PLANE}={control_plane} is the listener between brokers as well: take it out, or give the "
            "controller a listener of its own"
        )
    mechanism = config.on_listener(inter_broker, "sasl.mechanism.inter.broker.protocol")
    offered = config.on_listener(inter_broker, "sasl.enabled.mechanisms")
    if config.security_protocol(inter_broker).startswith("SASL_") and mechanism not in offered:
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={mechanism}: listener {inter_broker}, by which brokers reach each "
            f"other, does not offer it; want one of its sasl.enabled.mechanisms, {', '.join(offered)}"
        )
