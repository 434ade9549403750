"""Which offsets members of consumer groups may commit and fetch (KIP-848, KIP-1251)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.core.groups.consumer.checking import known_member
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode

FIRST_COMMIT_VERSION = 9
"""The first version of OffsetCommit whose clients know what STALE_MEMBER_EPOCH means."""


def check_commit(
    group: ConsumerGroup, member_id: str, epoch: int, version: int, places: Iterable[tuple[Uuid, int]]
) -> None:
    """Raise what keeps this member from committing offsets of these partitions; nobody may as long as there are others.

    A member that has moved on meanwhile may still commit for partitions that it has had since the epoch it names.
    """
    if epoch < 0 and group.is_empty:
        return
    member = known_member(group, member_id)
    if not member.uses_classic and version < FIRST_COMMIT_VERSION:
        message = f"Members of consumer groups commit with OffsetCommit version {FIRST_COMMIT_VERSION} or above."
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, message)
    _check_epoch(member, epoch, places)


def check_transactional_commit(
    group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, places: Iterable[tuple[Uuid, int]]
) -> None:
    """Raise what keeps this member from committing offsets in a transaction; who says nothing of itself may."""
    if epoch < 0 and (group.is_empty or (epoch == -1 and not member_id and instance_id is None)):
        return
    try:
        _check_epoch(known_member(group, member_id), epoch, places)
    except ApiError as e:
        if e.code is ErrorCode.STALE_MEMBER_EPOCH:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION) from None
        raise


def _check_epoch(member: ConsumerMember, epoch: int, places: Iterable[tuple[Uuid, int]]) -> None:
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        raise _stale(member)
    for topic_id, partition in places:
        since = member.assignment_epoch(topic_id, partition)
        if since is None or epoch < since:
            raise _stale(member)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Raise what keeps this member from fetching offsets; who does not say that it is a member may."""
    if member_id is None and epoch < 0:
        return
    member = known_member(group, member_id or "")
    if epoch != member.epoch:
        raise _stale(member)


def _stale(member: ConsumerMember) -> ApiError:
    return ApiError(ErrorCode.ILLEGAL_GENERATION if member.uses_classic else ErrorCode.STALE_MEMBER_EPOCH)
