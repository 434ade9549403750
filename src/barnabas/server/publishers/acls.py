"""The authorizer follows the ACLs of the metadata log (KIP-801)."""

from __future__ import annotations

from functools import cache

from barnabas.core.authorizer.loading import LoadingAuthorizer
from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.authorizer import NO_COUNT
from barnabas.server.authorizers import PluginAuthorizer, RequestAuthorizer, plugin_authorizer, standard_authorizer
from barnabas.server.config import NodeConfig
from barnabas.server.own_metadata import OwnMetadata


class AclPublisher:
    """Holds the authorizer of the moment: one value, replaced as a whole.

    Until the first image is taken up it is one that knows super users only; own: what this node's log says till then.
    """

    def __init__(self, config: NodeConfig, own: OwnMetadata) -> None:
        self.authorizer: RequestAuthorizer | None = None
        self._standard: StandardAuthorizer | None = None
        self._plugin: PluginAuthorizer | None = None
        if not config["authorizer.class.name"]:
            return
        self._plugin = plugin_authorizer(config)
        if self._plugin is not None and not self._plugin.keeps_rules:
            self.authorizer = self._plugin
            return
        self._standard = bare = standard_authorizer(config)
        # Peers ask again and again while they wait: what stands on the disk is indexed once.
        own_rules = cache(lambda: bare.with_acls(own.image().acls.by_id))
        self.authorizer = LoadingAuthorizer(bare.super_users, own_rules)

    @property
    def keeps_rules(self) -> bool:
        """Whether there are ACLs to create and to describe."""
        return self._standard is not None

    def acl_count(self) -> int:
        """Give what the gauge AclCount shows; -1 where nobody counts."""
        if self._plugin is not None:
            return self._plugin.acl_count()
        return NO_COUNT if self._standard is None else self._standard.acl_count

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the rules of a delta."""
        if self._standard is None:
            return
        loading = isinstance(self.authorizer, LoadingAuthorizer)
        if not (delta.acls or delta.snapshot or loading):
            return
        touched = None if delta.snapshot or loading else [acl_id for acl_id, _ in delta.acls]
        self._standard = self._standard.following(image.acls.by_id, touched)
        if self._plugin is None:
            self.authorizer = self._standard
        else:
            self._plugin.follow(self._standard)
            self.authorizer = self._plugin

    def close(self) -> None:
        """Close the plug-in, if there is one."""
        if self._plugin is not None:
            self._plugin.close()
