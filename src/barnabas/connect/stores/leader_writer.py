"""How the leader writes to the config topic: in transactions, where sources are exactly once or are to be (KIP-618).

All leaders of a group have one transactional id, so that a leader who does not know yet that there is another one can
change nothing any more. Without transactions this is plain appending, and nothing has to be claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.topic_log import TopicLog
from barnabas.connect.transactional import TransactionalWriter
from barnabas.core.connect.records import Record

log = structlog.get_logger("kafka.connect.storage")


class LeaderWriter:
    """The leader's way into one topic. make: gives a new producer; None where there are no transactions."""

    def __init__(self, topic: TopicLog, make: Callable[[], TransactionalWriter] | None) -> None:
        self._log = topic
        self._make = make
        self._writer: TransactionalWriter | None = None

    @property
    def claimed(self) -> bool:
        """Say whether this worker may write, as far as it knows."""
        return self._make is None or self._writer is not None

    async def claim(self) -> None:
        """Shut out whoever led before; no effect once claimed. WriteFailedError."""
        if self._make is None or self._writer is not None:
            return
        self._writer = self._make()
        try:
            await self._writer.init_transactions()
        except BaseException as e:
            await self.relinquish()
            if not isinstance(e, Exception):
                raise
            raise WriteFailedError(
                f"this worker leads, but could not claim topic {self._log.topic.name!r} for itself: {e}"
            ) from e

    async def append(self, records: Iterable[Record]) -> None:
        """Write records, all of them or none where there are transactions; WriteFailedError.

        After one that failed it has to be claimed again: perhaps somebody else leads by now.
        """
        if self._make is None:
            await self._log.append(records)
            return
        if self._writer is None:
            raise WriteFailedError(
                f"this worker has not claimed topic {self._log.topic.name!r} for itself yet, as its leader has to; try "
                "again in a moment"
            )
        try:
            await self._writer.begin()
            for record in records:
                await self._writer.send(self._log.topic.name, record.value, key=record.key)
            await self._writer.commit()
        except BaseException as e:
            await self.relinquish()
            if not isinstance(e, Exception):
                raise
            log.warning("the leader could not write to the config topic; perhaps another one leads", why=str(e))
            raise WriteFailedError(
                f"topic {self._log.topic.name!r} did not take what the leader wrote, perhaps because another worker "
                f"leads by now; try again in a moment: {e}"
            ) from e

    async def relinquish(self) -> None:
        """Write no more until it is claimed again."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                await writer.close(flush=False)
            except Exception as e:  # noqa: BLE001 - it is of no use any more, whatever is wrong with it
                log.debug("a producer did not close well", why=str(e))
