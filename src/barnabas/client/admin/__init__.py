"""The admin client: one coroutine per operation, refusals raised as `ApiError` or given per element.

Operations on several elements give a mapping from element to None or the ApiError that refused it; those on one
thing raise.
"""

from __future__ import annotations

from typing import Self

from barnabas.client.admin.acls import AclsAdmin
from barnabas.client.admin.configs import ConfigsAdmin
from barnabas.client.admin.groups import GroupsAdmin
from barnabas.client.admin.nodes import NodesAdmin
from barnabas.client.admin.quorum import QuorumAdmin
from barnabas.client.admin.reassignments import ReassignmentsAdmin
from barnabas.client.admin.tokens import TokensAdmin
from barnabas.client.admin.topics import TopicsAdmin
from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.admin.users import UsersAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig

__all__ = ["Admin"]


class Admin(
    TopicsAdmin, ReassignmentsAdmin, ConfigsAdmin, AclsAdmin, UsersAdmin, TokensAdmin, GroupsAdmin, NodesAdmin,
    QuorumAdmin, TransactionsAdmin,
):  # fmt: skip
    """Everything that can be asked of a cluster besides records. Use as an async context manager."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(Cluster(config))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.cluster.close()
