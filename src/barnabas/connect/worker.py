"""A Connect worker from its configuration: REST server, internal topics, herder and runtime, for as long as it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar
from urllib.parse import urlsplit

import structlog

from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder.engine import Engine
from barnabas.connect.herder.parts import Parts
from barnabas.connect.herder.worker_herder import WorkerHerder
from barnabas.connect.herder_port import Plugins
from barnabas.connect.internal_topics import internal_topic
from barnabas.connect.leader_client import LeaderClient
from barnabas.connect.metrics import WorkerMetrics
from barnabas.connect.rest.server import RestServer
from barnabas.connect.runtime import Runtime, SourceOffsets
from barnabas.connect.stores.configs import ConfigStore
from barnabas.connect.stores.offsets import OffsetStore
from barnabas.connect.stores.statuses import StatusStore
from barnabas.connect.topic_log import WRITE_MS
from barnabas.connect.transactional import TransactionalWriter
from barnabas.model.config import ConfigError
from barnabas.model.ports import Clock
from barnabas.net.client import DisconnectedError
from barnabas.net.clock import SystemClock
from barnabas.net.metrics_http import MetricsServer

log = structlog.get_logger("kafka.connect.worker")
T = TypeVar("T")
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0


class Worker:
    """One worker. `run` until `stop`; ConfigError, ApiError and the like when it cannot go on.

    runtime: makes what runs tasks, given what sources keep.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        runtime: Callable[[SourceOffsets], Runtime],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._runtime = runtime
        self._clock = clock or SystemClock()
        self.metrics = WorkerMetrics(self._clock, plugins, config.properties)
        self._stopping = asyncio.Event()
        self._made = asyncio.Event()
        self._engine: Engine | None = None
        self._herder: WorkerHerder | None = None
        self._url = ""

    @property
    def herder(self) -> WorkerHerder:
        """Give the herder; there is one from when the REST server listens."""
        assert self._herder is not None, "not running yet"
        return self._herder

    @property
    def engine(self) -> Engine:
        """Give what turns the herder."""
        assert self._engine is not None, "not running yet"
        return self._engine

    @property
    def url(self) -> str:
        """Give where other workers and users reach this worker's REST server; empty before it listens."""
        return self._url

    async def joined(self) -> None:
        """Wait until this worker is one of its group and does what it was assigned."""
        await self._made.wait()
        await self.engine.ready.wait()

    def stop(self) -> None:
        """Have `run` stop the work, leave the group and return."""
        self._stopping.set()
        if self._engine is not None:
            self._engine.stop()

    async def run(self) -> None:
        """Do everything that a worker does until `stop` is called."""
        for warning in self._config.warnings:
            log.warning(warning)
        config, client = self._config, self._config.client
        cluster_id = await self._unless_stopped(_cluster_id(client, self._clock))
        if cluster_id is None:
            return
        async with RestServer(config) as rest:
            self._url = rest.url
            offsets = OffsetStore(client, internal_topic(config, "offset"))
            parts = Parts(
                config,
                urlsplit(rest.url).netloc,
                rest.url,
                self._runtime(offsets),
                self._plugins,
                LeaderClient(rest.session, rest.credentials),
                self._clock,
                self.metrics,
            )
            configs = internal_topic(config, "config")
            statuses = StatusStore(client, internal_topic(config, "status"))
            leader = partial(_leader, config) if config.source_support.transactional_leader else None
            self._engine = Engine(parts, lambda on_event: ConfigStore(client, configs, on_event, leader), statuses)
            self._herder = WorkerHerder(self._engine, cluster_id)
            self._made.set()
            if self._stopping.is_set():
                self._engine.stop()
            await rest.serve(self._herder)
            async with offsets, self._measurements():
                await self._engine.run()
        log.info("the worker has stopped")

    @asynccontextmanager
    async def _measurements(self) -> AsyncIterator[None]:
        """Serve what is measured, where that is asked for."""
        address: str | None = self._config["barnabas.metrics.listener"]
        if address is None:
            yield
            return
        server = MetricsServer(address, self.metrics.registry)
        try:
            try:
                await server.start()
            except OSError as e:
                why = e.strerror or e
                raise ConfigError(f"barnabas.metrics.listener: {address} cannot be listened on: {why}") from None
            log.info("measurements are served", at=address)
            yield
        finally:
            await server.stop()

    async def _unless_stopped(self, work: Coroutine[None, None, T]) -> T | None:
        """Wait for something that may take long, but not once the worker is to stop; None then."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            stopped.cancel()
            task.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)


def _leader(config: WorkerConfig) -> TransactionalWriter:
    client = config.leader_client
    return TransactionalProducer(
        client.with_properties(
            linger_ms="0",
            delivery_timeout_ms=str(min(client.integer("delivery.timeout.ms"), WRITE_MS)),
            max_block_ms=str(min(client.integer("max.block.ms"), WRITE_MS)),
        )
    )


async def _cluster_id(client: ClientConfig, clock: Clock) -> str:
    """Give the id of the cluster, once its brokers can be reached: for a while they are waited for, as they may start
    together with their workers."""
    give_up_ms = clock.monotonic_ms() + client.integer("default.api.timeout.ms")
    pause_s, told = _FIRST_PAUSE_SECONDS, False
    while True:
        try:
            async with Cluster(client) as cluster:
                await cluster.retry(lambda: cluster.refresh(()))
                return cluster.cluster_id or ""
        except DisconnectedError as e:
            if clock.monotonic_ms() + pause_s * 1000 >= give_up_ms:
                raise
            if not told:
                log.warning("no broker can be reached yet; trying on", why=str(e))
                told = True
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_SECONDS)
