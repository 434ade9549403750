"""A controller on a freshly formatted directory, for tests of what stands on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.net.clock import SystemClock
from barnabas.server.config import NodeConfig
from barnabas.server.controller import Controller
from barnabas.server.format import FormatRequest, format_directories, standalone_voters
from barnabas.storage.fs import FileSystem
from barnabas.wire.records.config_record import ConfigRecord

CLUSTER_ID = "QmFybmFiYXNUZXN0UGVlcg"


def node_config(directory: Path, **settings: str) -> NodeConfig:
    """Give a combined node's configuration; settings: keys with `__` for a dot."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:19093",
        "metadata.max.idle.interval.ms": "0",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }
    return NodeConfig.parse(properties)


def formatted(
    directory: Path, fs: FileSystem | None = None, scram: tuple[str, ...] = (), **settings: str
) -> NodeConfig:
    """Format `directory` for one dynamic voter; give the node's configuration."""
    config = node_config(directory, **settings)
    request = FormatRequest(CLUSTER_ID, 1, [directory], directory, voters=standalone_voters(config), scram=scram)
    format_directories(request, fs=fs)
    return config


@contextlib.asynccontextmanager
async def running(config: NodeConfig, fs: FileSystem | None = None) -> AsyncIterator[Controller]:
    """Run a controller until the block ends, then stop it properly."""
    controller = Controller(config, SystemClock(), fs)
    task = asyncio.create_task(controller.run())
    try:
        await controller.caught_up()
        yield controller
    finally:
        await controller.stop()
        await task


def set_config(name: str, value: str) -> Decision[str]:
    """Decide to set one config of topic `t`; the response is the value."""
    record = ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
    return Decision((VersionedRecord(record, 0),), value)


def setting(name: str, value: str) -> Callable[[MetadataImage], Decision[str]]:
    """Give the decision above as `Controller.write` takes it."""
    return lambda image: set_config(name, value)


def configs_of(image: MetadataImage) -> dict[str, str]:
    """Give the configs of topic `t`."""
    return dict(image.configs.get(ConfigResource(ConfigResourceType.TOPIC, "t")))
