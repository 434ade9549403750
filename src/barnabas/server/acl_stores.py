"""Where the rules are kept that the authorizer decides by, for those who change and show them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.core.metadata.acl_changes import AclSearch, FilterResult, create_acls, delete_acls

if TYPE_CHECKING:
    from barnabas.core.metadata.acls import AclsImage
    from barnabas.model.acl import AclBinding, AclBindingFilter
    from barnabas.server.context import Services
    from barnabas.wire.errors import ApiError


class AclStore(Protocol):
    """Rules that can be created, deleted and described."""

    def known(self) -> AclsImage:
        """Give the rules as this node decides by them."""
        ...

    async def create(self, wanted: Sequence[AclBinding]) -> Sequence[ApiError | None]:
        """Add those that are not there yet; the answer says of each, in order, why not."""
        ...

    async def delete(self, filters: Sequence[AclBindingFilter]) -> Sequence[FilterResult]:
        """Remove what the filters match; the answer has, filter by filter, the rules that are gone, or why not."""
        ...


class MetadataAcls:
    """The rules are records of the cluster's metadata, which the active controller changes (KIP-801)."""

    def __init__(self, node: Services) -> None:
        self._node = node

    def known(self) -> AclsImage:
        """Give the committed rules as this node has taken them up."""
        return self._node.image().acls

    async def create(self, wanted: Sequence[AclBinding]) -> Sequence[ApiError | None]:
        """Have the controller add rules; ApiError NOT_CONTROLLER when it is another node."""
        new_uuid = self._node.changes.plans.new_uuid
        return await self._node.controller.write(lambda image: create_acls(image.acls, wanted, new_uuid))

    async def delete(self, filters: Sequence[AclBindingFilter]) -> Sequence[FilterResult]:
        """Have the controller remove rules; looking for them among many thousands holds up nobody."""
        controller = self._node.controller
        search = AclSearch(controller.image.acls, filters)
        for _ in search.steps():
            await asyncio.sleep(0)
        return await controller.write(lambda image: delete_acls(image.acls, search))
