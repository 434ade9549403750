"""A connector's offsets in a topic of its own, beside the worker's (KIP-618).

The own topic is what counts. The worker's has what was kept before the connector had its own, and follows as well as it
can, so that the connector may give its own topic up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from barnabas.connect.herder_port import ConnectorOffset, WriteFailedError
from barnabas.connect.runtime import SourceOffsets
from barnabas.connect.stores.offsets import OffsetStore
from barnabas.core.connect.json_converter import encode_json
from barnabas.core.connect.records import Record

log = structlog.get_logger("kafka.connect.storage")


class ConnectorOffsets:
    """`runtime.SourceOffsets` of one connector; `open` first, `close` in the end. shared: the worker's."""

    def __init__(self, own: OffsetStore, shared: SourceOffsets) -> None:
        self._own = own
        self._shared = shared

    @property
    def topic(self) -> str:
        """Give the name of the connector's own topic."""
        return self._own.topic

    async def open(self) -> None:
        """Make the own topic when it is missing and read it to its end; ConfigError, ApiError."""
        await self._own.open()

    async def close(self) -> None:
        """Stop following the own topic."""
        await self._own.close()

    def records(self, connector: str, offsets: Sequence[ConnectorOffset]) -> Sequence[Record]:
        """Give what keeps offsets in the own topic."""
        return self._own.records(connector, offsets)

    async def read(self, connector: str, partitions: Sequence[Mapping[str, object]]) -> Sequence[ConnectorOffset]:
        """Give the newest offset of each of these partitions, in order: the own topic's, else the worker's."""
        own = await self._own.read(connector, partitions)
        shared = await self._shared.read(connector, partitions)
        return [mine if mine.offset is not None else theirs for mine, theirs in zip(own, shared, strict=True)]

    async def read_all(self, connector: str) -> Sequence[ConnectorOffset]:
        """Give every partition that has an offset in either."""
        found = {_name(known): known for known in await self._shared.read_all(connector)}
        found |= {_name(known): known for known in await self._own.read_all(connector)}
        return [found[name] for name in sorted(found)]

    async def write(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Keep offsets, None to forget one; WriteFailedError.

        What is to be forgotten is forgotten in the worker's first, for it would be found there again.
        """
        forgotten = [offset for offset in offsets if offset.offset is None]
        if forgotten:
            await self._shared.write(connector, forgotten)
        await self._own.write(connector, offsets)
        await self.follow(connector, [offset for offset in offsets if offset.offset is not None])

    async def follow(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Have the worker's topic say what the own one says by now; that it cannot is logged.

        WriteFailedError where something is to be forgotten, for it would be found there again.
        """
        try:
            if offsets:
                await self._shared.write(connector, offsets)
        except WriteFailedError as e:
            if any(offset.offset is None for offset in offsets):
                raise
            log.warning(
                "the worker's own offsets topic does not follow that of a connector", connector=connector, why=str(e)
            )


def _name(known: ConnectorOffset) -> bytes:
    return encode_json({name: known.partition[name] for name in sorted(known.partition)})
