"""A broker's life in ZooKeeper mode: its znode says that it lives, and the controller is asked before it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.metadata.cluster import Endpoint as RegisteredEndpoint
from barnabas.core.zookeeper.errors import ZooKeeperError
from barnabas.core.zookeeper.znodes import brokers, notifications
from barnabas.net.client import ChannelError
from barnabas.server.config import PROTOCOLS
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.core.zookeeper.security import ZnodeAcls
    from barnabas.model.ports import Clock
    from barnabas.model.uuid import Uuid
    from barnabas.net.zookeeper.client import ZooKeeperClient
    from barnabas.server.config import Endpoint, NodeConfig
    from barnabas.server.forwarding.controller_channel import ControllerChannel
    from barnabas.server.zookeeper.metadata import ZooKeeperMetadata

log = structlog.get_logger("kafka.server.BrokerLifecycle")

_VERSION: Final = ControlledShutdownRequest.MAX_VERSION


class ZooKeeperLifecycle:
    """A `Lifecycle`; see the module."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        zk: ZooKeeperClient,
        metadata: ZooKeeperMetadata,
        channel: Callable[[], ControllerChannel],
        *,
        acls_for: Callable[[str], ZnodeAcls],
        image: Callable[[], MetadataImage],
        next_image: Callable[[], Awaitable[MetadataImage]],
        failed_directories: Callable[[], int],
        stop_following: Callable[[], None],
    ) -> None:
        """channel: to the controller; image, next_image: of the node; failed_directories: how many have failed;
        stop_following: has this broker fetch from leaders no more."""
        self._config = config
        self._clock = clock
        self._zk = zk
        self._metadata = metadata
        self._channel = channel
        self._acls_for = acls_for
        self._image = image
        self._next_image = next_image
        self._failed_directories = failed_directories
        self._stop_following = stop_following
        self._news = asyncio.Event()
        self._told_failed = 0

    @property
    def epoch(self) -> int:
        """Give the epoch of the broker's registration: the transaction that made its znode, -1 before the first."""
        return self._metadata.broker_epoch

    async def register(
        self, cluster_id: str, endpoints: Sequence[Endpoint], directories: Sequence[Uuid], previous_epoch: int
    ) -> None:
        """Make the broker's znode, now and in each session that follows; IdTakenError when another has its id."""
        listeners = {
            e.listener_name: RegisteredEndpoint(e.host, e.port, PROTOCOLS.index(e.security_protocol)) for e in endpoints
        }
        rack = self._config["broker.rack"]
        await self._metadata.register(
            lambda: brokers.registration(listeners, rack=rack, features={}, timestamp_ms=self._clock.now_ms())
        )

    async def unfence(self) -> None:
        """Wait for nothing: whoever has a znode is in the cluster."""

    async def settle(self) -> None:
        """Wait until the controller has told of this broker, so that its clients find it."""
        image = self._image()
        while self._config.node_id not in image.cluster.brokers:
            image = await self._next_image()

    async def run(self) -> None:
        """Tell the controller of log directories that fail, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            failed = self._failed_directories()
            if failed > self._told_failed:
                await self._tell_failure()
                self._told_failed = failed

    def hurry(self) -> None:
        """Look at once whether a log directory has failed."""
        self._news.set()

    async def _tell_failure(self) -> None:
        path = notifications.LOG_DIR_EVENT
        data = notifications.log_dir_failed(self._config.node_id)
        try:
            await self._zk.create(path, data, self._acls_for(path), sequential=True)
        except ZooKeeperError as e:
            log.error("the controller is not told that a log directory has failed", why=str(e))

    async def shut_down(self) -> None:
        """Ask the controller to move leaderships away, as often as `controlled.shutdown.max.retries` says."""
        if self.epoch < 0 or not self._config["controlled.shutdown.enable"]:
            return
        pause_s = self._config["controlled.shutdown.retry.backoff.ms"] / 1000
        for last in (*[False] * self._config["controlled.shutdown.max.retries"], True):
            if await self._may_go():
                return
            if set(self._image().cluster.brokers) <= {self._config.node_id}:
                return  # nobody is left who could lead
            if not last:
                await asyncio.sleep(pause_s)
        log.warning("leaves although it still leads partitions", broker=self._config.node_id)

    async def _may_go(self) -> bool:
        request = ControlledShutdownRequest(broker_id=self._config.node_id, broker_epoch=self.epoch)
        limit_s = self._config["controller.socket.timeout.ms"] / 1000
        try:
            async with asyncio.timeout(limit_s):
                answer: ControlledShutdownResponse = await self._channel().call(request, _VERSION)
        except (TimeoutError, ApiError, ChannelError) as e:
            log.info("the controller does not agree to a shutdown yet", because=str(e) or f"no answer in {limit_s} s")
            return False
        if not answer.error_code:
            self._stop_following()  # or leaders would ask for it to be in sync again
        if answer.error_code:
            log.info("the controller refuses a shutdown", error=ErrorCode(answer.error_code).name)
        elif answer.remaining_partitions:
            left = [f"{p.topic_name}-{p.partition_index}" for p in answer.remaining_partitions]
            log.info("still leads partitions that nobody else can", partitions=len(left), some=left[:10])
        return not answer.error_code and not answer.remaining_partitions
