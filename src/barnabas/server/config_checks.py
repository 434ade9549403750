"""What must hold between the settings of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.authorizer.standard import parse_super_users
from barnabas.core.sasl.mechanisms import MECHANISMS
from barnabas.model.config import ConfigError
from barnabas.net.zookeeper.config_keys import CONNECT
from barnabas.server import zookeeper_checks
from barnabas.server.authorizer_names import ACL_AUTHORIZER, AUTHORIZERS, STANDARD_AUTHORIZER
from barnabas.server.groups.config import check_broker_keys

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

_MIGRATION: Final = "zookeeper.metadata.migration.enable"


def check(config: NodeConfig) -> None:
    """Raise ConfigError, which names what is wrong and what would be right, unless the node can be so."""
    if config[_MIGRATION]:
        raise ConfigError(
            f"{_MIGRATION}=true: moving a cluster from ZooKeeper to KRaft is not offered here. Take it out; Apache "
            "Kafka 3.9 has the migration"
        )
    if config.is_zookeeper_mode:
        zookeeper_checks.check(config)
    else:
        _check_id(config)
        _check_controller_listeners(config)
        _check_quorum(config)
        _check_acl_store(config)
    _check_listeners(config)
    _check_security(config)
    check_broker_keys(config.values)


def _check_id(config: NodeConfig) -> None:
    if not config.has_id:
        raise ConfigError(f"node.id: '{config.node_id}' is not allowed; want a number of at least 0")


def _check_controller_listeners(config: NodeConfig) -> None:
    controllers = set(config.controller_listener_names)
    if not controllers:
        raise ConfigError("controller.listener.names is empty; name the listener that controllers serve")
    if config.is_controller and not controllers & {e.listener_name for e in config.listeners}:
        raise ConfigError(
            f"listeners has none of controller.listener.names ({', '.join(sorted(controllers))}), "
            "and a controller must listen on one"
        )


def _check_acl_store(config: NodeConfig) -> None:
    if config.keeps_acls_in_zookeeper and not config[CONNECT]:
        raise ConfigError(
            f"authorizer.class.name={ACL_AUTHORIZER} keeps its rules in ZooKeeper, and zookeeper.connect is not set: "
            f"set it, or want {STANDARD_AUTHORIZER}, which keeps them in the metadata log"
        )


def _check_listeners(config: NodeConfig) -> None:
    names = {e.listener_name for e in config.listeners}
    if config.is_broker and not config.broker_listeners:
        raise ConfigError("listeners has no listener for clients; add one that is not in controller.listener.names")
    strangers = {e.listener_name for e in config.advertised} - names
    if strangers:
        raise ConfigError(f"advertised.listeners: {sorted(strangers)[0]} does not stand in listeners")
    for name in config["early.start.listeners"] or ():
        if name.upper() not in names | set(config.controller_listener_names):
            raise ConfigError(f"early.start.listeners: {name} is neither in listeners nor in controller.listener.names")


def _check_security(config: NodeConfig) -> None:
    authorizer = config["authorizer.class.name"]
    if authorizer not in AUTHORIZERS and authorizer.startswith(("org.apache.kafka.", "kafka.")):
        own = ACL_AUTHORIZER if config.is_zookeeper_mode else STANDARD_AUTHORIZER
        raise ConfigError(
            f"authorizer.class.name: {authorizer!r} is not known here; want {own}, a Python class as module:Class, or "
            "nothing for no authorization"
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
