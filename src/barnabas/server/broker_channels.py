"""Connections of this broker to others, one each, opened when they are first wanted and again when they broke.

Transaction coordinators send their markers over them, and leaders ask coordinators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.net.client import Channel, ChannelSettings, DisconnectedError
from barnabas.server.peer_channels import peer_settings

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig


class BrokerChannels:
    """address: gives where a broker listens for others, None while it is not known."""

    def __init__(self, config: NodeConfig, address: Callable[[int], tuple[str, int] | None]) -> None:
        self._config = config
        self._address = address
        self._settings: ChannelSettings | None = None
        self._channels: dict[int, Channel] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    def reconfigure(self, config: NodeConfig) -> None:
        """Take another configuration for what is opened from now on."""
        self._config, self._settings = config, None

    def settings(self) -> ChannelSettings:
        """Give how to connect to another broker: the same while the configuration stays, so that a token is kept."""
        if self._settings is None:
            config = self._config
            made = peer_settings(config, config.inter_broker_listener_name, f"broker-{config.node_id}-transactions")
            self._settings = replace(made, receive_buffer_bytes=config["socket.receive.buffer.bytes"])
        return self._settings

    async def call(self, broker_id: int, request: Any, *, max_version: int | None = None) -> Any:
        """Ask a broker; ChannelError when there is no answer."""
        channel = await self._channel(broker_id)
        return await channel.call(request, max_version=max_version)

    async def _channel(self, broker_id: int) -> Channel:
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            address = self._address(broker_id)
            if address is None:
                raise DisconnectedError(f"broker {broker_id} has no address that others may use")
            channel = self._channels.get(broker_id)
            if channel is not None and ((channel.host, channel.port) != address or channel.is_closed):
                del self._channels[broker_id]
                await channel.close()
                channel = None
            if channel is None:
                channel = self._channels[broker_id] = await Channel.open(*address, self.settings())
            return channel

    async def close(self) -> None:
        """Close all connections."""
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            await channel.close()
