"""Members of groups, scripted: what a client sends and no more, each on its own connection, all on one event loop.

They differ from real clients in one thing: they send heartbeats so often that the pauses between them are not all that
is measured. One such pause there is: what a member gave up another gets with its next heartbeat.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.client.admin.groups import assigned_partitions
from barnabas.model.uuid import Uuid
from barnabas.net.client import Channel, ChannelSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import encode
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription

HEARTBEAT_S: Final = 0.1
SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000
PROTOCOL: Final = "range"
_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class MemberError(Exception):
    """A member was refused something, or the group did not settle in time."""


class Member(ABC):
    """One member of one group. partitions: what it holds, none while it holds nothing for certain."""

    def __init__(self, channel: Channel, group: str, topic: str, topic_id: Uuid) -> None:
        self._channel = channel
        self._group = group
        self._topic = topic
        self._topic_id = topic_id
        self.generation = -1
        self.partitions: tuple[int, ...] = ()
        self.changed = asyncio.Event()
        """Set whenever `partitions` or `generation` may have changed."""

    @abstractmethod
    async def run(self) -> None:
        """Join, and do what the group asks for, until cancelled."""

    def _holds(self, generation: int, partitions: Sequence[int]) -> None:
        self.generation = generation
        self.partitions = tuple(partitions)
        self.changed.set()


class ClassicMember(Member):
    """A member by the classic protocol; the leader gives one partition to each member in turn."""

    def __init__(self, channel: Channel, group: str, topic: str, topic_id: Uuid) -> None:
        super().__init__(channel, group, topic, topic_id)
        self._member_id = ""
        self._protocols = [JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription(topic))]

    async def run(self) -> None:
        while True:
            joined = await self._join()
            code, assignment = await self._sync(joined)
            if code is ErrorCode.NONE:
                self._holds(joined.generation_id, _partitions(assignment))
                while code is ErrorCode.NONE:
                    await asyncio.sleep(HEARTBEAT_S)
                    code = await self._heartbeat(joined.generation_id)
            if code not in _REJOIN:
                raise MemberError(f"{self._group}: {code.name}")

    async def _join(self) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=self._protocols,
            )
            joined: JoinGroupResponse = await self._channel.call(request, timeout_ms=REBALANCE_MS)
            if joined.error_code == ErrorCode.NONE:
                return joined
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise MemberError(f"{self._group}: {ErrorCode(joined.error_code).name}")
            self._member_id = joined.member_id

    async def _sync(self, joined: JoinGroupResponse) -> tuple[ErrorCode, bytes]:
        assignments = []
        if joined.leader == joined.member_id:
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment(self._topic, number))
                for number, member in enumerate(joined.members)
            ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        synced = await self._channel.call(request, timeout_ms=REBALANCE_MS)
        return ErrorCode(synced.error_code), synced.assignment

    async def _heartbeat(self, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=self._member_id)
        return ErrorCode((await self._channel.call(request)).error_code)


class ConsumerMember(Member):
    """A member by the consumer protocol (KIP-848): what it is given it has at once, what it is to give up it gives."""

    async def run(self) -> None:
        member_id = str(uuid.uuid4())
        epoch = 0
        owned: tuple[int, ...] = ()
        news = True  # what the coordinator has not been told yet
        while True:
            request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=member_id, member_epoch=epoch)
            if epoch == 0:
                request.rebalance_timeout_ms = REBALANCE_MS
                request.subscribed_topic_names = [self._topic]
            if news:
                held = [TopicPartitions(topic_id=self._topic_id, partitions=list(owned))]
                request.topic_partitions = held if owned else []
            answer = await self._channel.call(request)
            if answer.error_code:
                raise MemberError(f"{self._group}: {ErrorCode(answer.error_code).name} {answer.error_message or ''}")
            epoch, news = answer.member_epoch, False
            if answer.assignment is not None:
                given = tuple(p for topic in answer.assignment.topic_partitions for p in topic.partitions)
                news, owned = given != owned, given
            self._holds(epoch, owned)
            if not news:
                await asyncio.sleep(HEARTBEAT_S)


async def join(
    kind: Callable[..., Member], channels: Sequence[Channel], group: str, topic: str, topic_id: Uuid, limit_s: float
) -> float:
    """Let a group of a member for each channel, and as many partitions, come to be.

    Gives the seconds from the first request of the last member until each holds one partition, for good.
    """
    members = [kind(channel, group, topic, topic_id) for channel in channels]
    tasks = [asyncio.create_task(member.run()) for member in members]
    changes = [asyncio.create_task(_settled(member, members)) for member in members]
    begin = time.perf_counter()  # all of them send their first request in the loop's next turn
    try:
        async with asyncio.timeout(limit_s):
            done, _ = await asyncio.wait([*tasks, *changes], return_when=asyncio.FIRST_COMPLETED)
            took = time.perf_counter() - begin
            for task in done:
                task.result()  # a member that was refused raises here
            return took
    except TimeoutError:
        held = Counter(len(member.partitions) for member in members)
        raise MemberError(f"{group} did not settle within {limit_s:g} s; members by partitions: {held}") from None
    finally:
        for task in (*tasks, *changes):
            task.cancel()
        await asyncio.gather(*tasks, *changes, return_exceptions=True)


async def _settled(member: Member, members: Sequence[Member]) -> None:
    """Wait for a change of one member after which all hold one partition each, of one generation, none twice."""
    while True:
        await member.changed.wait()
        member.changed.clear()
        held = {each.partitions for each in members}
        alone = len(held) == len(members) and all(len(each.partitions) == 1 for each in members)
        if alone and len({each.generation for each in members}) == 1:
            return


def subscription(topic: str) -> bytes:
    """Give what a member of the classic protocol says that it wants."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=[topic]), 0)


def assignment(topic: str, partition: int) -> bytes:
    """Give what the leader gives a member."""
    given = [TopicPartition(topic=topic, partitions=[partition])]
    return b"\0\0" + encode(ConsumerProtocolAssignment(assigned_partitions=given), 0)


def _partitions(given: bytes) -> list[int]:
    return [tp.partition for tp in assigned_partitions(given)]


async def open_channels(bootstrap: str, number: int) -> list[Channel]:
    """Give so many connections to a plain node."""
    host, _, port = bootstrap.rpartition(":")
    return list(await asyncio.gather(*(Channel.open(host, int(port), ChannelSettings()) for _ in range(number))))


async def close_channels(channels: Sequence[Channel]) -> None:
    """Close them."""
    await asyncio.gather(*(channel.close() for channel in channels))
