"""`barnabas groups --describe`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import typer

from barnabas.cli.connection import run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.client.admin.groups import CONSUMER, GroupInfo, GroupMember
from barnabas.client.admin.topics import OffsetSpec
from barnabas.client.config import ClientConfig
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode


class Section(Enum):
    """What of a group to show."""

    OFFSETS = auto()
    MEMBERS = auto()
    STATE = auto()


def describe(
    config: ClientConfig, groups: Sequence[str] | None, section: Section, *, verbose: bool, output: OutputFormat
) -> None:
    """Print offsets and lag, members or state of the groups; all groups when None."""
    notes: list[str] = []

    async def work(admin: Admin) -> list[dict[str, Any]]:
        rows = []
        for name in groups if groups is not None else await _consumer_groups(admin):
            info = await describe_one(admin, name)
            if section is Section.OFFSETS:
                rows += await offset_rows(admin, info, verbose=verbose)
            elif section is Section.MEMBERS:
                rows += [_member_row(info, member, verbose) for member in info.members]
            else:
                rows.append(_state_row(admin, info, verbose))
            if not info.members and section is not Section.STATE:
                notes.append(f"Group {name} has no active members.")
        return rows

    rows = run_admin(config, work, needs="Describe on the group and on its topics")
    if output is OutputFormat.TABLE:
        for note in notes:
            typer.echo(note, err=True)
    show(rows, output)


async def describe_one(admin: Admin, name: str) -> GroupInfo:
    """Give a group; CliError when there is none."""
    try:
        return await admin.describe_group(name)
    except ApiError as e:
        if e.code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise CliError(f"There is no group {name}; `barnabas groups --list` shows those you may see.") from None
        raise


async def offset_rows(admin: Admin, info: GroupInfo, *, verbose: bool = False) -> list[dict[str, Any]]:
    """Give a row for each partition that the group has an offset for or a member on. verbose: with the leader epochs
    that were committed."""
    committed = await admin.group_offsets(info.group_id)
    owners: dict[TopicPartition, GroupMember] = {p: m for m in info.members for p in m.partitions}
    partitions = sorted({*committed, *owners})
    known = await admin.topics()
    there = [p for p in partitions if p.topic in known and p.partition in known[p.topic].partitions]
    ends = await admin.list_offsets(dict.fromkeys(there, int(OffsetSpec.LATEST))) if there else {}
    rows = []
    for partition in partitions:
        listed, offset, owner = ends.get(partition), committed.get(partition), owners.get(partition)
        end = None if listed is None or isinstance(listed, ApiError) else listed.offset
        rows.append(
            {
                "group": info.group_id,
                "topic": partition.topic,
                "partition": partition.partition,
                **({"leader_epoch": _known(offset and offset.leader_epoch)} if verbose else {}),
                "current_offset": None if offset is None else offset.offset,
                "log_end_offset": end,
                "lag": None if end is None or offset is None else end - offset.offset,
                "consumer_id": None if owner is None else owner.instance_id or owner.member_id,
                "host": None if owner is None else owner.host,
                "client_id": None if owner is None else owner.client_id,
            }
        )
    return rows


def _member_row(info: GroupInfo, member: GroupMember, verbose: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "group": info.group_id,
        "consumer_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partition_count": len(member.partitions),
    }
    if verbose:
        row["epoch"] = member.epoch
        row["assignment"] = _by_topic(member.partitions)
        row["target_epoch"] = info.target_epoch
        row["target_assignment"] = _by_topic(member.target)
        row["upgraded"] = member.upgraded
    return row


def _by_topic(partitions: Sequence[TopicPartition]) -> list[str]:
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return [f"{t}({','.join(map(str, ps))})" for t, ps in by_topic.items()]


def _known(epoch: int | None) -> int | None:
    return None if epoch is None or epoch < 0 else epoch


def _state_row(admin: Admin, info: GroupInfo, verbose: bool) -> dict[str, Any]:
    node = admin.cluster.nodes.get(info.coordinator)
    return {
        "group": info.group_id,
        "coordinator": f"{node.host}:{node.port}" if node else None,
        "coordinator_id": info.coordinator,
        "type": info.type,
        "assignor": info.assignor or None,
        "state": info.state,
        "members": len(info.members),
    } | ({"epoch": info.epoch, "target_epoch": info.target_epoch} if verbose else {})


async def _consumer_groups(admin: Admin) -> list[str]:
    return [g.group_id for g in await admin.list_groups() if g.protocol_type in (CONSUMER, "")]
