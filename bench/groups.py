"""What group coordinators do: large groups that come to be, offsets committed, memory for many groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.model.uuid import Uuid
from barnabas.net.client import Channel, UnsupportedVersionError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import decode_response_header
from barnabas.wire.message import decode
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bench import members, requests
from bench.goals import Measured, Results
from bench.members import PROTOCOL, ClassicMember, ConsumerMember, Member, MemberError
from bench.systems import System

_PROPERTIES: Final = {
    # Else both would wait for more members: three seconds in the classic protocol, one in the consumer protocol.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    # Kafka's own default; the tests' node has fewer.
    "offsets.topic.num.partitions": "50",
}
TOPIC: Final = "shared"
_COMMIT_VERSION: Final = 9
_COMMITTERS: Final = (1, 16)
_LONG_SESSION_MS: Final = 1_800_000
_MANY_CHANNELS: Final = 16
_JOIN_LIMIT_S: Final = 60
_IDLE_S: Final = 5.0
_PATIENCE_S: Final = 30.0
_PROTOCOLS: Final[Mapping[str, Callable[..., Member]]] = {"classic": ClassicMember, "consumer": ConsumerMember}
_NOT_YET: Final = frozenset({
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
})  # fmt: skip
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """How much is done. members: of a group, and partitions of its topic; groups: of one member each, in memory."""

    repeats: int
    members: int
    seconds: float
    warm_up_s: float
    groups: int

    @property
    def counts(self) -> dict[str, int]:
        """Give what the rows' titles name."""
        return {"members": self.members, "groups": self.groups}


FULL: Final = GroupSizes(repeats=5, members=100, seconds=6, warm_up_s=5, groups=10_000)
QUICK: Final = GroupSizes(repeats=3, members=100, seconds=3, warm_up_s=3, groups=10_000)


def measure_groups(kind: type[System], work: Path, sizes: GroupSizes, results: Results, say: Say) -> None:
    """Measure one system, plain."""
    with kind(work / "groups", secured=False, properties=_PROPERTIES) as system:
        system.prepare()
        system.start()
        asyncio.run(_joins(system, sizes, results, say))
        _commits(system, sizes, results, say)
    with kind(work / "many-groups", secured=False, properties=_PROPERTIES) as system:
        system.prepare()
        system.start()
        asyncio.run(_memory(system, sizes, results, say))


def _note(results: Results, key: str, value: float, cpu_us: float | None = None) -> None:
    measured = results.setdefault(key, Measured())
    measured.values.append(value)
    if cpu_us is not None:
        measured.cpu_us.append(cpu_us)


# joining


async def _joins(system: System, sizes: GroupSizes, results: Results, say: Say) -> None:
    topic_id = await _create_topic(system.admin(), sizes.members)
    await coordinated(system.admin()["bootstrap.servers"])
    for protocol, kind in _PROTOCOLS.items():
        say(f"  join-{protocol}")
        try:
            for number in range(-1, sizes.repeats):
                channels = await members.open_channels(system.admin()["bootstrap.servers"], sizes.members)
                before = system.cpu_s()
                try:
                    took = await members.join(kind, channels, f"{protocol}-{number}", TOPIC, topic_id, _JOIN_LIMIT_S)
                finally:
                    await members.close_channels(channels)
                if number >= 0:  # the first is to warm up
                    spent = (system.cpu_s() - before) / sizes.members * 1e6
                    _note(results, f"join-{protocol}", took, spent)
        except (MemberError, UnsupportedVersionError) as e:
            say(f"    not measured: {e}")
            results.pop(f"join-{protocol}", None)


async def _create_topic(config: Mapping[str, str], partitions: int) -> Uuid:
    async with Admin(ClientConfig.from_properties(config)) as admin:
        for error in (await admin.create_topics([NewTopic(TOPIC, partitions, 1)])).values():
            if error is not None:
                raise error
        until = time.monotonic() + _PATIENCE_S
        while (found := (await admin.topics()).get(TOPIC)) is None or len(found.partitions) < partitions:
            if time.monotonic() > until:
                raise TimeoutError(f"{TOPIC} did not come to be")
            await asyncio.sleep(0.05)
        return found.topic_id


async def coordinated(bootstrap: str) -> None:
    """Wait until there is a coordinator for any group, by committing an offset for many of them."""
    (channel,) = await members.open_channels(bootstrap, 1)
    try:
        await channel.call(FindCoordinatorRequest(coordinator_keys=["any"]), version=4)  # has the topic created
        for number in range(200):
            await _ready(channel, f"ready-{number}")
    finally:
        await channel.close()


async def _ready(channel: Channel, group: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        answer = await channel.call(_commit(group), version=_COMMIT_VERSION)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            return
        if code not in _NOT_YET or time.monotonic() > until:
            raise MemberError(f"no offset can be committed for {group}: {code.name}")
        await asyncio.sleep(0.1)


# offsets


def _commit(group: str, generation: int = -1, member_id: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def _commits(system: System, sizes: GroupSizes, results: Results, say: Say) -> None:
    for connections in _COMMITTERS:
        key = f"offset-commits-{connections}"
        say(f"  {key}")
        frames = [commit_frame(f"ready-{n}") for n in range(connections)]
        requests.repeat(system.admin(), frames, check_commit, seconds=sizes.warm_up_s)
        for _ in range(sizes.repeats):
            before = system.cpu_s()
            found = requests.repeat(system.admin(), frames, check_commit, seconds=sizes.seconds)
            _note(results, key, found.per_second, (system.cpu_s() - before) / found.requests * 1e6)


def commit_frame(group: str, generation: int = -1) -> bytes:
    """Give the frame of a request that commits an offset for a group, which has no members unless of a generation."""
    return requests.frame_of(_commit(group, generation), _COMMIT_VERSION)


def check_commit(answer: bytes) -> None:
    """Raise RequestsError when an answer to that says that the offset was not committed."""
    _, at = decode_response_header(OffsetCommitRequest.API_KEY, _COMMIT_VERSION, answer, 4)
    code = decode(OffsetCommitResponse, _COMMIT_VERSION, answer, at).topics[0].partitions[0].error_code
    if code:
        raise requests.RequestsError(f"an offset was not committed: {ErrorCode(code).name}")


# memory


async def _memory(system: System, sizes: GroupSizes, results: Results, say: Say) -> None:
    say("  groups-rss")
    await _create_topic(system.admin(), 1)
    await coordinated(system.admin()["bootstrap.servers"])
    channels = await members.open_channels(system.admin()["bootstrap.servers"], _MANY_CHANNELS)
    try:
        await asyncio.sleep(_IDLE_S)
        before = system.rss_mb()
        await _each(channels, range(sizes.groups), _found)
        await asyncio.sleep(_IDLE_S)
        after = system.rss_mb()
    finally:
        await members.close_channels(channels)
    _note(results, "groups-rss", after)
    _note(results, "groups-rss-added", after - before)


async def _each(
    channels: Sequence[Channel], numbers: Sequence[int], work: Callable[[Channel, int], Awaitable[None]]
) -> None:
    async def part(index: int) -> None:
        for number in numbers[index :: len(channels)]:
            await work(channels[index], number)

    await asyncio.gather(*(part(index) for index in range(len(channels))))


async def _found(channel: Channel, number: int) -> None:
    """Make a group of one member, which has one partition and has committed an offset."""
    group = f"group-{number}"
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=_LONG_SESSION_MS,
        rebalance_timeout_ms=_LONG_SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=members.subscription(TOPIC))],
    )
    joined = await channel.call(join)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        join.member_id = joined.member_id
        joined = await channel.call(join)
    _sound(group, joined.error_code)
    share = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=members.assignment(TOPIC, 0))
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name=PROTOCOL,
        assignments=[share],
    )
    _sound(group, (await channel.call(sync)).error_code)
    committed = await channel.call(_commit(group, joined.generation_id, joined.member_id), version=_COMMIT_VERSION)
    _sound(group, committed.topics[0].partitions[0].error_code)


def _sound(group: str, code: int) -> None:
    if code:
        raise MemberError(f"{group}: {ErrorCode(code).name}")
