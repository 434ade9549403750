"""What a broker tells the controller of its replicas: the directory that each lies in (KIP-858)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import assign_replicas_to_dirs
from barnabas.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

if TYPE_CHECKING:
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.server.controller_channel import ControllerChannel

log = structlog.get_logger("kafka.server.replicas")

MAX_ASSIGNMENTS: Final = 2_000
"""How many replicas one request names at most."""


class ReplicaReports:
    """A publisher that notes what is to be told, and a task that tells it."""

    def __init__(
        self,
        node_id: int,
        channel: ControllerChannel,
        *,
        directory_of: Callable[[TopicPartition], Uuid | None],
        broker_epoch: Callable[[], int],
    ) -> None:
        """directory_of: the id of the directory that a replica of ours lies in; broker_epoch: of the registration."""
        self._node_id = node_id
        self._channel = channel
        self._directory_of = directory_of
        self._broker_epoch = broker_epoch
        self._misplaced: dict[tuple[Uuid, int], Uuid] = {}
        self._news = asyncio.Event()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note the replicas whose record says something else than we know."""
        for topic_id, numbers in delta.topics.items():
            topic = image.topics.by_id[topic_id]
            for number in numbers:
                registration = topic.partitions[number]
                if self._node_id in registration.replicas:
                    self._compare(topic_id, TopicPartition(topic.name, number), registration)
        if self._misplaced:
            self._news.set()

    def _compare(self, topic_id: Uuid, tp: TopicPartition, registration: PartitionRegistration) -> None:
        key = (topic_id, tp.partition)
        found = self._directory_of(tp)
        if found is not None and found != registration.directory_of(self._node_id):
            self._misplaced[key] = found

    async def run(self) -> None:
        """Tell what is noted, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self._tell_directories()

    async def _tell_directories(self) -> None:
        batch = [(key, self._misplaced.pop(key)) for key in list(self._misplaced)[:MAX_ASSIGNMENTS]]
        if self._misplaced:
            self._news.set()
        if not batch:
            return
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, number), directory in batch:
            by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(number)
        directories = [
            assign_replicas_to_dirs.RequestDirectoryData(
                id=directory,
                topics=[
                    assign_replicas_to_dirs.RequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            assign_replicas_to_dirs.RequestPartitionData(partition_index=n) for n in sorted(numbers)
                        ],
                    )
                    for topic_id, numbers in topics.items()
                ],
            )
            for directory, topics in by_directory.items()
        ]
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), directories=directories
        )
        answer = await self._channel.call(request, request.MAX_VERSION)
        if answer.error_code:
            log.warning("directories are not taken", replicas=len(batch), error=ErrorCode(answer.error_code).name)
