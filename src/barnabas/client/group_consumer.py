"""A consumer that shares topics with the rest of its group and keeps its place there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from barnabas.client.admin.groups import CommittedOffset, GroupsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import FetchedBatches, PartitionFetcher
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.membership import GroupMembership
from barnabas.model.config import ConfigError
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode


class GroupConsumer:
    """Consumes topics as a member of `group.id`. Use as an async context manager: leaving it commits and leaves.

    What `poll` gave counts as consumed at the next `poll`, `commit` or at the end.
    """

    def __init__(self, config: ClientConfig, topics: Sequence[str]) -> None:
        group = config.text("group.id")
        if not group:
            raise ConfigError("group.id is not set: a consumer that shares topics needs the name of its group")
        self.cluster = Cluster(config)
        self.fetcher = PartitionFetcher(config, cluster=self.cluster)
        self.membership = GroupMembership(self.cluster, group, topics)
        self._groups = GroupsAdmin(self.cluster)
        self._config = config
        self._auto_commit: bool = config["enable.auto.commit"]
        self._next_commit = 0.0
        self._committed: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def poll(self, timeout_ms: int) -> list[FetchedBatches]:
        """Give batches of this member's partitions, joining or rebalancing first where needed."""
        now = asyncio.get_running_loop().time()
        if self._auto_commit and (now >= self._next_commit or self.membership.must_join):
            await self._commit_quietly()
            self._next_commit = now + self._config.integer("auto.commit.interval.ms") / 1000
        if await self.membership.ensure_joined():
            await self._take_over()
        return await self.fetcher.fetch(timeout_ms)

    async def commit(self) -> None:
        """Commit the positions; ApiError when the group refuses, which a rebalance makes it do."""
        changed = {p: o for p, o in self.fetcher.positions.items() if self._committed.get(p) != o}
        if not changed:
            return
        membership = self.membership
        results = await self._groups.commit_offsets(
            membership.group,
            {p: CommittedOffset(o) for p, o in changed.items()},
            generation=membership.generation,
            member_id=membership.member_id,
            instance_id=self._config.text("group.instance.id"),
        )
        for error in results.values():
            if error is not None:
                raise error
        self._committed |= changed

    def group_metadata(self) -> GroupMetadata:
        """Give who commits for this member: what a transactional producer's offsets go with (KIP-447)."""
        membership = self.membership
        return GroupMetadata(
            membership.group,
            membership.generation,
            membership.member_id,
            self._config.text("group.instance.id"),
        )

    async def close(self) -> None:
        """Commit when that is automatic, leave the group and close every connection."""
        try:
            if self._auto_commit and self.membership.member_id:
                await self._commit_quietly()
            await self.membership.leave()
        finally:
            await self.fetcher.close()
            await self.cluster.close()

    async def _commit_quietly(self) -> None:
        try:
            await self.commit()
        except ApiError as e:
            if e.code not in (
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.UNKNOWN_MEMBER_ID,
            ):
                raise  # else another member goes on from the commit before, as with any consumer

    async def _take_over(self) -> None:
        partitions = self.membership.partitions
        self._committed = {}
        if not partitions:
            self.fetcher.assign({})
            return
        committed = await self._groups.group_offsets(self.membership.group, partitions, require_stable=True)
        positions = {p: o.offset for p, o in committed.items() if p in partitions}
        self._committed = dict(positions)
        missing = [p for p in partitions if p not in positions]
        if missing:
            positions |= await self._first_offsets(missing)
        self.fetcher.assign(positions)

    async def _first_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        policy: str = self._config["auto.offset.reset"]
        if policy not in ("earliest", "latest"):
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"group {self.membership.group!r} has no offset for {partitions[0]}, and auto.offset.reset is {policy}",
            )
        return await self.fetcher.start_offsets(partitions, policy)
