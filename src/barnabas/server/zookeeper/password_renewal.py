"""A broker that was given another secret takes over its own passwords in ZooKeeper at its start (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.zookeeper.errors import BadVersionError, NoNodeError
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.values import Create, SetData
from barnabas.core.zookeeper.znodes import configs
from barnabas.core.zookeeper.znodes.notifications import CONFIG_CHANGE, config_change
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.config import ConfigError
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.passwords import PasswordEncoder

log = structlog.get_logger("kafka.server.configs")


async def renew_passwords(
    zk: ZooKeeperClient, broker_id: int, passwords: PasswordEncoder, acls_for: Callable[[str], ZnodeAcls]
) -> None:
    """Encrypt anew what only `password.encoder.old.secret` reads among the configs of this broker; others hear of it.

    Nothing is done without an old secret. ConfigError when there is none to encrypt with.
    """
    if passwords.old_secret is None:
        return
    if passwords.secret is None:
        raise ConfigError("password.encoder.old.secret is set, and password.encoder.secret is not: set the new one")
    while not await _renewed(zk, ConfigResource(ConfigResourceType.BROKER, str(broker_id)), passwords, acls_for):
        pass


async def _renewed(
    zk: ZooKeeperClient, broker: ConfigResource, passwords: PasswordEncoder, acls_for: Callable[[str], ZnodeAcls]
) -> bool:
    """Try once; False when somebody else has written meanwhile."""
    path = configs.path(broker)
    try:
        data, stat = await zk.get(path)
    except NoNodeError:
        return True
    found = configs.read_properties(Znode(path, data, stat.version, stat.czxid))
    wanted = {key: passwords.renewed(text) if passwords.is_password(key) else text for key, text in found.items()}
    changed = sorted(key for key in found if wanted[key] != found[key])
    if not changed:
        return True
    told = Create(CONFIG_CHANGE, config_change(configs.entity_path(broker)), acls_for(CONFIG_CHANGE), sequential=True)
    try:
        await zk.multi([SetData(path, configs.properties(wanted), stat.version), told])
    except (BadVersionError, NoNodeError):
        return False
    log.info("passwords are encrypted with password.encoder.secret now", configs=changed)
    return True
