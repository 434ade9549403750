"""What a broker tells the controller of its replicas: the directory that each lies in (KIP-858)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.net.client import ChannelError
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages import assign_replicas_to_dirs
from barnabas.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

if TYPE_CHECKING:
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.server.forwarding.controller_channel import ControllerChannel

log = structlog.get_logger("kafka.server.replicas")

RETRY_S: Final = 0.1
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
        """directory_of: the id of the directory that a replica lies in, None for one that is moving or none of ours;
        broker_epoch: of the registration."""
        self._node_id = node_id
        self._channel = channel
        self._directory_of = directory_of
        self._broker_epoch = broker_epoch
        self._misplaced: dict[tuple[Uuid, int], Uuid] = {}
        self._waiting: dict[tuple[Uuid, int], list[asyncio.Future[None]]] = {}
        self._news = asyncio.Event()
        self._under_way = 0
        self._wanted = True

    @property
    def queued(self) -> int:
        """Give how many replicas' directories the controller is yet to be told, or to agree to."""
        return len(self._misplaced) + self._under_way

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note the replicas whose record says something else than we know, where records say it (KIP-858)."""
        self._wanted = image.levels.directories
        if not self._wanted:
            return
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

    async def assign(self, topic_id: Uuid, number: int, directory: Uuid) -> None:
        """Tell the controller that a replica is about to be in a directory; returns once it has agreed.

        ApiError when it does not. Returns at once where controllers do not want to know.
        """
        if not self._wanted:
            return
        agreed = asyncio.get_running_loop().create_future()
        self._misplaced[topic_id, number] = directory
        self._waiting.setdefault((topic_id, number), []).append(agreed)
        self._news.set()
        await agreed

    async def run(self) -> None:
        """Tell what is noted, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            batch = dict(islice(self._misplaced.items(), MAX_ASSIGNMENTS))
            for key in batch:
                del self._misplaced[key]
            if self._misplaced:
                self._news.set()
            self._under_way = len(batch)
            told = not batch or await self._told(batch)
            self._under_way = 0
            if not told:
                self._misplaced = batch | self._misplaced
                self._news.set()
                await asyncio.sleep(RETRY_S)

    async def _told(self, batch: dict[tuple[Uuid, int], Uuid]) -> bool:
        try:
            answer = await self._channel.call(self._request(batch), AssignReplicasToDirsRequest.MAX_VERSION)
        except ChannelError as e:
            log.warning("directories not told", replicas=len(batch), why=str(e))
            return False
        if answer.error_code:
            log.warning("directories are not taken", replicas=len(batch), error=ErrorCode(answer.error_code).name)
            return False
        for directory in answer.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    self._answered((topic.topic_id, partition.partition_index), ErrorCode(partition.error_code))
        return True

    def _answered(self, key: tuple[Uuid, int], error: ErrorCode) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                if error:
                    future.set_exception(ApiError(error))
                else:
                    future.set_result(None)

    def _request(self, batch: dict[tuple[Uuid, int], Uuid]) -> AssignReplicasToDirsRequest:
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, number), directory in batch.items():
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
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), directories=directories
        )
