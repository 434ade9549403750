"""From the command line and Kafka's environment to a session with ZooKeeper."""

from __future__ import annotations

from typing import Final

from barnabas.cli.errors import CliError
from barnabas.client.config import load_properties_file
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.net.zookeeper.config_keys import (
    CONNECT,
    CONNECTION_TIMEOUT,
    HOST_CHECK,
    SESSION_TIMEOUT,
    SOCKET,
    TLS,
    TLS_KEYS,
)
from barnabas.net.zookeeper.settings import ZooKeeperSettings

from .options import Options

_TLS_NAMES: Final = (TLS, SOCKET, HOST_CHECK, *TLS_KEYS)
_NO_LOGIN: Final = (
    "There is nothing to log in with: set java.security.auth.login.config, as in "
    "KAFKA_OPTS=-Djava.security.auth.login.config=FILE, to a JAAS file with a section Client; or name a file with a "
    "TLS key by --zk-tls-config-file. Nothing was changed."
)


def settings_of(options: Options) -> ZooKeeperSettings:
    """Give the settings; CliError when there is nothing to log in with, except for a dry run: reading works without."""
    given = {} if options.tls_file is None else load_properties_file(options.tls_file)
    properties = {name: value for name, value in given.items() if name in _TLS_NAMES} | {
        CONNECT: options.connect,
        SESSION_TIMEOUT: str(options.session_timeout_ms),
        CONNECTION_TIMEOUT: str(options.connection_timeout_ms),
    }
    settings = zookeeper_settings(properties)
    has_key = settings.tls is not None and settings.tls.config.key_store.given
    if settings.login is None and not has_key and not options.dry_run:
        raise CliError(_NO_LOGIN)
    return settings


def check_login(zk: ZooKeeperClient) -> None:
    """CliError when ZooKeeper serves us as nobody though we have logged in."""
    if zk.login_failure:
        raise CliError(f"ZooKeeper does not know us: {zk.login_failure}. Nothing was changed.")
