"""The controller's way to each broker in ZooKeeper mode: one connection, requests in order, each until an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from barnabas.core.metadata.cluster import BrokerRegistration
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.zookeeper.control_requests import ControlRequest
from barnabas.net.client import Channel, ChannelError, ChannelSettings
from barnabas.wire.declaration import Message
from barnabas.wire.errors import ErrorCode

log = structlog.get_logger("kafka.controller")

Answered = Callable[[int, ControlRequest, Message], None]
PAUSE_S: Final = 0.1
"""Before a request that got no answer is sent again."""


class BrokerChannels:
    """Tells brokers what the controller has decided, for as long as each lives. `close` ends it."""

    def __init__(
        self,
        settings: Callable[[], ChannelSettings],
        listener: str,
        answered: Answered = lambda broker, asked, said: None,
    ) -> None:
        """settings: as of the moment a connection is made; listener: of the brokers, which we connect to; answered: is
        told what a broker that lives has said to a request."""
        self._settings = settings
        self._listener = listener
        self._answered = answered
        self._senders: dict[int, _Sender] = {}

    def follow(self, image: MetadataImage) -> None:
        """Know the brokers that live: others are told nothing any more, what they were still to be told included."""
        live = image.cluster.brokers
        for broker_id in [i for i, s in self._senders.items() if i not in live or live[i].epoch != s.broker.epoch]:
            self._senders.pop(broker_id).stop()
        for broker_id, broker in live.items():
            if broker_id not in self._senders:
                self._senders[broker_id] = _Sender(broker, self._listener, self._settings, self._answered)

    def tell(self, asked: Mapping[int, Sequence[ControlRequest]]) -> None:
        """Have requests sent to brokers that live, after all that they were told before."""
        for broker_id, requests in asked.items():
            sender = self._senders.get(broker_id)
            if sender is not None:
                sender.add(requests)

    async def close(self) -> None:
        """Send nothing any more."""
        senders, self._senders = list(self._senders.values()), {}
        for sender in senders:
            sender.stop()
        for sender in senders:
            await sender.stopped()


class _Sender:
    """One broker's queue."""

    def __init__(
        self, broker: BrokerRegistration, listener: str, settings: Callable[[], ChannelSettings], answered: Answered
    ) -> None:
        self.broker = broker
        self._answered = answered
        self._endpoint = broker.listeners.get(listener)
        self._settings = settings
        self._queue: asyncio.Queue[ControlRequest] = asyncio.Queue()
        self._channel: Channel | None = None
        if self._endpoint is None:
            log.warning("a broker has no listener of the name that brokers use among themselves", broker=broker.id,
                        listener=listener)  # fmt: skip
        self._task = asyncio.create_task(self._run(), name=f"controller to broker {broker.id}")

    def add(self, requests: Iterable[ControlRequest]) -> None:
        if self._endpoint is not None:
            for request in requests:
                self._queue.put_nowait(request)

    def stop(self) -> None:
        self._task.cancel()

    async def stopped(self) -> None:
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        try:
            while True:
                await self._sent(await self._queue.get())
        finally:
            if self._channel is not None:
                await self._channel.close()

    async def _sent(self, request: ControlRequest) -> None:
        """Send until there is an answer. What it refuses it has from another controller, or will learn of anew."""
        assert self._endpoint is not None
        name = type(request).__name__.removesuffix("Request")
        told = False
        while True:
            try:
                if self._channel is None or self._channel.is_closed:
                    self._channel = await Channel.open(self._endpoint.host, self._endpoint.port, self._settings())
                answer = await self._channel.call(request)
            except ChannelError as e:
                if not told:
                    log.info("a broker does not answer yet", broker=self.broker.id, request=name, because=str(e))
                told = True
                if self._channel is not None:
                    await self._channel.close()
                    self._channel = None
                await asyncio.sleep(PAUSE_S)
                continue
            if answer.error_code:
                code = ErrorCode(answer.error_code).name
                log.warning("a broker refuses the controller", broker=self.broker.id, request=name, error=code)
            self._answered(self.broker.id, request, answer)
            return
