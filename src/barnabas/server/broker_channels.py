"""Connections of this broker to others, one each, opened when they are first wanted and again when they broke."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.net.client import Channel, ChannelSettings, DisconnectedError


class BrokerChannels:
    """address: gives where a broker listens for others, None while it is not known."""

    def __init__(
        self, settings: Callable[[], ChannelSettings], address: Callable[[int], tuple[str, int] | None]
    ) -> None:
        self._settings = settings
        self._address = address
        self._channels: dict[int, Channel] = {}
        self._opening: dict[int, asyncio.Lock] = {}

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
                channel = self._channels[broker_id] = await Channel.open(*address, self._settings())
            return channel

    async def close(self) -> None:
        """Close all connections."""
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            await channel.close()
