"""Somebody who writes to a topic all the time, one record after the other, and checks at the end what is there."""

from __future__ import annotations

import asyncio
import threading
from typing import Final, Self

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.client.producer import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.peers.eventually import eventually

_WAIT_S: Final = 120.0
_THERE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class Load:
    """Use as a context manager. It makes the topic, with one partition; leaving it checks that nothing was lost."""

    def __init__(self, config: ClientConfig, topic: str, replicas: int = 1) -> None:
        self._config = config
        self._where = TopicPartition(topic, 0)
        self._replicas = replicas
        self._acked = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="load")

    def __enter__(self) -> Self:
        asyncio.run(self._make_topic())
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join(_WAIT_S)
        if kind is None:
            assert not self._thread.is_alive(), "a record is neither written nor refused"
            assert self._failure is None, self._failure
            assert asyncio.run(self._read()) >= set(range(self._acked))

    def go_on(self) -> None:
        """Wait until a record is written that was not begun yet."""
        with self._changed:
            wanted = self._acked + 2
            in_time = self._changed.wait_for(lambda: self._acked >= wanted or self._failure, _WAIT_S)
        assert self._failure is None, self._failure
        assert in_time, f"no record was written for {_WAIT_S} s"

    def _work(self) -> None:
        try:
            asyncio.run(self._write())
        except BaseException as e:
            self._failure = e
            raise
        finally:
            with self._changed:
                self._changed.notify_all()

    async def _write(self) -> None:
        async with Producer(self._config) as producer:
            while not self._stop.is_set():
                await (await producer.send(self._where.topic, str(self._acked).encode(), partition=0))
                with self._changed:
                    self._acked += 1
                    self._changed.notify_all()

    async def _make_topic(self) -> None:
        async with Admin(self._config) as admin:

            async def made() -> bool:  # refused by all but the controller, and until it knows of every broker
                await admin.nodes()
                controller = admin.cluster.controller_id
                return controller in admin.cluster.nodes and await self._answer(admin, controller) in _THERE

            await eventually(made, True, _WAIT_S)

    async def _answer(self, admin: Admin, controller: int) -> int:
        topic = CreatableTopic(name=self._where.topic, num_partitions=1, replication_factor=self._replicas)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        response: CreateTopicsResponse = await admin.cluster.call_node(controller, request)
        return response.topics[0].error_code

    async def _read(self) -> set[int]:
        found: set[int] = set()
        async with PartitionFetcher(self._config) as fetcher, asyncio.timeout(_WAIT_S):
            end = (await fetcher.start_offsets([self._where], "latest"))[self._where]
            fetcher.assign({self._where: 0})
            while fetcher.positions[self._where] < end:
                for batches in await fetcher.fetch(500):
                    found.update(int(value or b"") for value in batches.columns().values)
        return found
