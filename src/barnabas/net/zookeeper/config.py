"""From properties and the environment of Kafka's scripts to the settings of a client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import structlog

from barnabas.model.config import ConfigError
from barnabas.net.tls import ClientTls, TlsConfig
from barnabas.net.zookeeper.config_keys import (
    CONNECT,
    CONNECTION_TIMEOUT,
    HOST_CHECK,
    LOGIN_CONFIG,
    NETTY_SOCKET,
    SASL_CLIENT,
    SECTION,
    SERVICE,
    SESSION_TIMEOUT,
    SET_ACL,
    SOCKET,
    SYSTEM_NAMES,
    TLS,
    TLS_KEYS,
    ZOOKEEPER_KEYS,
)
from barnabas.net.zookeeper.jaas_file import read_login
from barnabas.net.zookeeper.logins import Login
from barnabas.net.zookeeper.settings import ZooKeeperSettings, parse_connect
from barnabas.net.zookeeper.system_properties import system_properties

log = structlog.get_logger("kafka.zookeeper")

_ENDPOINT: Final = "zookeeper.ssl.endpoint.identification.algorithm"
_ENDINGS: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
MISSING_LOGIN: Final = (
    "zookeeper.set.acl is true, but there is nobody to own the znodes: pass a JAAS file with a section {section!r} by "
    "-Djava.security.auth.login.config in KAFKA_OPTS, or set java.security.auth.login.config, or use TLS with a key "
    "(zookeeper.ssl.client.enable, zookeeper.ssl.keystore.location)"
)


def zookeeper_settings(
    properties: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> ZooKeeperSettings:
    """Give the settings that Kafka's keys describe; other keys are not looked at.

    environment: whose KAFKA_OPTS may name more, by `-D`; the process's when None. ConfigError names what is wrong,
    also when `zookeeper.set.acl` is true and we are nobody to ZooKeeper.
    """
    values = _values(properties, system_properties(os.environ if environment is None else environment))
    if not values[CONNECT]:
        raise ConfigError(f"{CONNECT} is not set: want host:port,host:port/chroot")
    servers, chroot = parse_connect(values[CONNECT])
    session_ms = values[SESSION_TIMEOUT]
    login, tls = _login(values), _tls(values)
    if values[SET_ACL] and login is None and not (tls is not None and tls.config.key_store.given):
        raise ConfigError(MISSING_LOGIN.format(section=values[SECTION]))
    return ZooKeeperSettings(servers, chroot, session_ms, values[CONNECTION_TIMEOUT] or session_ms, login, tls)


def sets_acls(properties: Mapping[str, str]) -> bool:
    """Give `zookeeper.set.acl`: whether znodes that we make are ours alone to change."""
    return bool(ZOOKEEPER_KEYS.parse({SET_ACL: properties[SET_ACL]} if SET_ACL in properties else {}).values[SET_ACL])


def _values(properties: Mapping[str, str], system: Mapping[str, str]) -> dict[str, Any]:
    given = {key: system[name] for key, name in SYSTEM_NAMES.items() if name in system}
    if HOST_CHECK in system:
        given[_ENDPOINT] = "HTTPS" if system[HOST_CHECK].lower() != "false" else ""
    given |= {key.name: properties[key.name] for key in ZOOKEEPER_KEYS if key.name in properties}
    return ZOOKEEPER_KEYS.parse(given).values


def _login(values: Mapping[str, Any]) -> Login | None:
    if not values[LOGIN_CONFIG]:
        return None
    section = values[SECTION]
    login = read_login(values[LOGIN_CONFIG], section, values[SERVICE])
    if login is None:
        log.info("the JAAS file has no login for ZooKeeper", file=values[LOGIN_CONFIG], section=section)
        return None
    if not values[SASL_CLIENT]:
        log.warning("zookeeper.sasl.client=false: ZooKeeper does not know us, though there is a login", section=section)
        return None
    return login


def _tls(values: Mapping[str, Any]) -> ClientTls | None:
    if not values[TLS]:
        return None
    if values[SOCKET] not in (None, "", NETTY_SOCKET):
        raise ConfigError(f"{SOCKET}={values[SOCKET]} knows no TLS: want {NETTY_SOCKET}, or nothing")
    settings = {plain: values[key] for key, plain in TLS_KEYS.items() if values[key] is not None}
    for store in ("keystore", "truststore"):
        if location := settings.get(f"ssl.{store}.location"):
            settings.setdefault(f"ssl.{store}.type", _type_of(location))
    settings.setdefault("ssl.enabled.protocols", [settings.pop("ssl.protocol")])
    try:
        return ClientTls(TlsConfig.parse(settings))
    except ConfigError as e:
        raise ConfigError(f"zookeeper.{e}") from None


def _type_of(location: str) -> str:
    return next((kind for ending, kind in _ENDINGS.items() if location.endswith(ending)), "JKS")
