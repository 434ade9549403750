"""The rules of a KRaft node whose authorizer is AclAuthorizer: ZooKeeper has them, whoever has the rest (KIP-801)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.zookeeper.security import acls_for
from barnabas.model.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.core.metadata.acl_changes import FilterResult
    from barnabas.core.metadata.acls import AclsImage
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.model.acl import AclBinding, AclBindingFilter
    from barnabas.server.node import Node
    from barnabas.server.publishers import Publisher
    from barnabas.wire.errors import ApiError


def rules_in_zookeeper(node: Node) -> RulesInZooKeeper | None:
    """Give the store of a node that wants it, None for others, which never load what it needs; ConfigError else."""
    if not node.config.keeps_acls_in_zookeeper:
        return None
    try:
        return RulesInZooKeeper(node)
    except ModuleNotFoundError as e:
        raise ConfigError(
            f"authorizer.class.name wants ZooKeeper, and {e.name} is not installed: pip install 'barnabas[zookeeper]'"
        ) from e


class RulesInZooKeeper:
    """An `AclStore` with a session of its own. publisher: takes up the rules, all of them at first."""

    publisher: Publisher

    def __init__(self, node: Node) -> None:
        from barnabas.net.zookeeper.client import ZooKeeperClient
        from barnabas.net.zookeeper.config import sets_acls, zookeeper_settings
        from barnabas.server.zookeeper.acls import ZooKeeperAcls

        properties = node.config.acl_store
        self._zk = ZooKeeperClient(zookeeper_settings(properties))
        self._sets_acls = sets_acls(properties)
        acls = partial(acls_for, secure=self._sets_acls)
        self._rules = ZooKeeperAcls(self._zk, acls, node.clock.now_ms, self._publish)

    async def start(self, node: Node) -> None:
        """Read the rules, and follow them from then on; ZooKeeperError or ZooKeeperAccessError when they cannot be."""
        from barnabas.core.zookeeper.access import NEEDED_FOR_RULES
        from barnabas.server.zookeeper.access import check_access

        await self._zk.start()
        await check_access(self._zk, set_acl=self._sets_acls, needed=NEEDED_FOR_RULES)
        node.watch(self._rules.run(), "rules in ZooKeeper")
        await self._rules.caught_up()

    async def close(self) -> None:
        """End the session."""
        await self._zk.close()

    def known(self) -> AclsImage:
        """Give the rules as this node decides by them."""
        return self._rules.image.acls

    async def create(self, wanted: Sequence[AclBinding]) -> Sequence[ApiError | None]:
        """Add rules, as `ZooKeeperAcls.create`."""
        return await self._rules.create(wanted)

    async def delete(self, filters: Sequence[AclBindingFilter]) -> Sequence[FilterResult]:
        """Remove rules, as `ZooKeeperAcls.delete`."""
        return await self._rules.delete(filters)

    def _publish(self, delta: MetadataDelta) -> None:
        self.publisher.publish(delta, delta.after)
