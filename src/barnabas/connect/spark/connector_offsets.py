"""Where a sink is, and moving it: the offsets of its group (KIP-875)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from barnabas.client.admin.groups import CommittedOffset, GroupsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.connect.herder_port import BadRequestError, ConnectorOffset, HerderError
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"


class SinkOffsets:
    """Those of one sink. client: how to reach the cluster; group: that of its tasks."""

    def __init__(self, client: Mapping[str, str], group: str) -> None:
        self._config = ClientConfig.from_properties(client)
        self._group = group

    async def all(self) -> Sequence[ConnectorOffset]:
        """Give what the group has committed."""
        async with Cluster(self._config) as cluster:
            found = await GroupsAdmin(cluster).group_offsets(self._group)
        return [
            ConnectorOffset({TOPIC: p.topic, PARTITION: p.partition}, {OFFSET: committed.offset})
            for p, committed in sorted(found.items())
        ]

    async def alter(self, wanted: Mapping[TopicPartition, int | None]) -> None:
        """Commit offsets, and delete those that are None; HerderError, BadRequestError while the group has members."""
        moved = {p: CommittedOffset(offset) for p, offset in wanted.items() if offset is not None}
        forgotten = [p for p, offset in wanted.items() if offset is None]
        async with Cluster(self._config) as cluster:
            admin = GroupsAdmin(cluster)
            try:
                results = await admin.commit_offsets(self._group, moved) if moved else {}
                if forgotten:
                    results |= await admin.delete_offsets(self._group, forgotten)
            except ApiError as error:
                self._refuse(error)
        for partition, refusal in results.items():
            if refusal is not None:
                self._refuse(refusal, f" of {partition}")

    async def reset(self) -> None:
        """Delete the group; BadRequestError while it has members."""
        async with Cluster(self._config) as cluster:
            error = (await GroupsAdmin(cluster).delete_groups([self._group]))[self._group]
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            self._refuse(error)

    def _refuse(self, error: ApiError, which: str = "") -> NoReturn:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
            raise BadRequestError(
                f"the consumer group {self._group} still has members: either tasks of the connector have not stopped "
                "completely yet, or it was resumed meanwhile; stop it and try again"
            ) from error
        raise HerderError(
            f"the offsets{which} in the consumer group {self._group} cannot be changed: {error}"
        ) from error


def parse_sink_offsets(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Give what a request means by its partitions and offsets; BadRequestError says what is wrong with them."""
    return {_partition(each.partition): _offset(each.offset) for each in offsets}


def _partition(given: Mapping[str, Any]) -> TopicPartition:
    if given.get(TOPIC) is None or given.get(PARTITION) is None:
        raise BadRequestError(f"the partition of a sink's offset needs the keys {TOPIC} and {PARTITION}, not {given}")
    return TopicPartition(str(given[TOPIC]), _number(given[PARTITION], PARTITION))


def _offset(given: Mapping[str, Any] | None) -> int | None:
    if given is None:
        return None
    if OFFSET not in given:
        raise BadRequestError(f"the offset of a sink needs the key {OFFSET}, or must be null, not {given}")
    return _number(given[OFFSET], OFFSET)


def _number(value: Any, key: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise BadRequestError(f"{key} is {value!r}, want a whole number of at least 0")
    return number
