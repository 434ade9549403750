"""Rules that are kept in ZooKeeper, as AclAuthorizer keeps them, beside whatever keeps the rest of the metadata (A-34).

Every node follows them; any may change them, and Kafka 3.9's nodes too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from barnabas.core.metadata.acl_changes import FilterResult
from barnabas.core.metadata.delta import DeltaBuilder, MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.zookeeper.errors import NodeExistsError
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.znodes import acls
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.updates import rules_update
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError
from barnabas.model.acl import AclBinding, AclBindingFilter, ResourcePattern
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.acl_writer import AclWriter, read_znode
from barnabas.server.zookeeper.layout import OF_RULES, with_parents
from barnabas.server.zookeeper.notifications import Notifications
from barnabas.server.zookeeper.old_notifications import keep_few
from barnabas.server.zookeeper.reading import read_znodes
from barnabas.server.zookeeper.sessions import in_each_session
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.authorizer")

_TOLD: Final = (acls.LITERAL_CHANGES, acls.EXTENDED_CHANGES)
_EPOCH: Final = -1
"""Of images that no log has made."""


class ZooKeeperAcls:
    """The rules, and changes of them. `run` is its task; `image` holds nothing but rules."""

    def __init__(
        self,
        zk: ZooKeeperClient,
        acls_for: Callable[[str], ZnodeAcls],
        now_ms: Callable[[], int],
        publish: Callable[[MetadataDelta], None],
    ) -> None:
        """now_ms: wall clock; publish: takes up each change, the first reading too, as `AclPublisher.publish` does."""
        self._zk = zk
        self._acls_for = acls_for
        self._now_ms = now_ms
        self._publish = publish
        self._writer = AclWriter(zk, acls_for, self._read_again)
        self._rules = RulesByPattern()
        self._changes = 0
        self._reading = asyncio.Lock()
        """Held from a reading until it is taken up: an older one never comes after a newer one."""
        self._known = asyncio.Event()
        self.image = MetadataImage.EMPTY

    async def caught_up(self) -> MetadataImage:
        """Wait until the rules have been read once, and give them."""
        await self._known.wait()
        return self.image

    async def create(self, wanted: Sequence[AclBinding]) -> list[ApiError | None]:
        """Add rules as `AclWriter.create`; this node decides by them when it is answered."""
        await self._known.wait()
        return await self._writer.create(wanted)

    async def delete(self, filters: Sequence[AclBindingFilter]) -> list[FilterResult]:
        """Remove rules as `AclWriter.delete`; this node decides without them when it is answered."""
        await self._known.wait()
        return await self._writer.delete(self.image.acls, filters)

    async def run(self) -> None:
        """Follow the rules, one session after the other, until cancelled; ZnodeError when they cannot be read.

        While ZooKeeper is away the rules stay as they were.
        """
        await in_each_session(self._zk, self._session)

    async def _session(self) -> None:
        await self._make_roots()
        told = [Notifications(self._zk, parent, self._hear) for parent in (acls.LITERAL_CHANGES, acls.EXTENDED_CHANGES)]
        for notifications in told:
            await notifications.mark()
        async with self._reading:
            found = await read_znodes(self._zk, (acls.LITERAL, acls.PREFIXED))
            records = (versioned for znode in found for versioned in acls.records(znode))
            self._take_up(difference(self.image, replay(MetadataImage.EMPTY, records)))
        self._known.set()
        async with asyncio.TaskGroup() as group:
            for notifications in told:
                group.create_task(notifications.follow(), name="changes of rules")
            group.create_task(keep_few(self._zk, _TOLD, self._now_ms), name="old changes of rules")

    async def _make_roots(self) -> None:
        await self._zk.make_chroot(self._acls_for("/"))
        for path in with_parents(OF_RULES):
            try:
                await self._zk.create(path, None, self._acls_for(path))
            except NodeExistsError:
                pass

    async def _hear(self, told: Znode) -> None:
        try:
            await self._read_again(acls.notified(told))
        except ZnodeError as e:
            log.error("a change of rules is left out: what it speaks of cannot be read", why=str(e))

    async def _read_again(self, pattern: ResourcePattern) -> None:
        async with self._reading:
            builder = DeltaBuilder(self.image)
            for versioned in rules_update(self._rules, pattern, await read_znode(self._zk, acls.path(pattern))):
                builder.replay(versioned.record)
            self._take_up(builder.build(self._changes + 1, _EPOCH))

    def _take_up(self, delta: MetadataDelta) -> None:
        if delta.empty and self._known.is_set():
            return
        self._changes += 1
        self._rules, _ = self._rules.after(delta)
        self.image = delta.after
        self._publish(delta)
