"""The authorizer follows the ACLs of the metadata log (KIP-801)."""

from __future__ import annotations

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage


class AclPublisher:
    """Holds the authorizer of the moment: one value, replaced as a whole."""

    def __init__(self, authorizer: StandardAuthorizer | None) -> None:
        """authorizer: without rules yet; None when none is configured."""
        self.authorizer = authorizer

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the rules of a delta."""
        if self.authorizer is not None and (delta.acls or delta.snapshot):
            touched = None if delta.snapshot else [acl_id for acl_id, _ in delta.acls]
            self.authorizer = self.authorizer.following(image.acls.by_id, touched)
