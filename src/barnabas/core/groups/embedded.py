"""What consumers say to each other inside of the classic protocol (KIP-62, KIP-429, KIP-792, KIP-881).

A coordinator that turns a classic group into a consumer group, or serves classic members inside of one, takes the part
of their leader: it reads subscriptions and assignments, and writes assignments. Topics go by their names here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import decode_from, encode
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription

NEWEST_VERSION: Final = 3
"""Of subscriptions and of assignments; what says that it is newer is read as this one."""
_HEADER: Final = struct.Struct(">h")

Named = Mapping[str, frozenset[int]]
"""Partitions by the name of their topic."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer says when it joins. version: in which it said so, and wants its assignment."""

    version: int
    topics: frozenset[str]
    owned: Named
    rack_id: str | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a leader assigned to a consumer. user_data: what its assignor wants to find again, empty for Kafka's own."""

    partitions: Named
    user_data: bytes


def read_subscription(data: bytes) -> Subscription:
    """Give a subscription; ProtocolError when this is none."""
    version = _version(data)
    read, _ = decode_from(ConsumerProtocolSubscription, version, data, _HEADER.size)
    owned = _named((one.topic, one.partitions) for one in read.owned_partitions)
    return Subscription(version, frozenset(read.topics), owned, read.rack_id)


def read_assignment(data: bytes) -> Assignment:
    """Give an assignment, that of nothing for no bytes at all; ProtocolError when this is none."""
    if not data:
        return Assignment({}, b"")
    read, _ = decode_from(ConsumerProtocolAssignment, _version(data), data, _HEADER.size)
    return Assignment(_named((one.topic, one.partitions) for one in read.assigned_partitions), read.user_data or b"")


def write_assignment(partitions: Named, version: int) -> bytes:
    """Give the bytes of an assignment."""
    topics = [TopicPartition(topic=name, partitions=sorted(mine)) for name, mine in sorted(partitions.items())]
    return _HEADER.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def _version(data: bytes) -> int:
    try:
        version: int = _HEADER.unpack_from(data)[0]
    except struct.error:
        raise ProtocolError("the consumers' embedded protocol begins with its version") from None
    if version < 0:
        raise ProtocolError(f"the consumers' embedded protocol has no version {version}")
    return min(version, NEWEST_VERSION)


def _named(topics: Iterable[tuple[str, Iterable[int]]]) -> Named:
    return {name: frozenset(partitions) for name, partitions in topics if partitions}
