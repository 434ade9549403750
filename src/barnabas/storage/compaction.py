"""Compacting a node's logs in turn, the filthiest first; a log that cannot be read is left alone from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import structlog

from barnabas.model.topic_partition import TopicPartition
from barnabas.storage.cleaner import Cleaner, CleanerSettings, CleaningAbortedError, CleaningResult
from barnabas.storage.cleaner_schedule import LogToClean, assessed, filthiest
from barnabas.storage.log import Log
from barnabas.wire.errors import ApiError, ProtocolError

log = structlog.get_logger("kafka.log.cleaner")


@dataclass(frozen=True, slots=True)
class LastCleaning:
    """What the latest compaction was like. kept: the share of the bytes that stayed; map_use: of the map of keys."""

    seconds: float = 0.0
    kept: float = 0.0
    map_use: float = 0.0


class Compaction:
    """cleaned: told each log after it was compacted. uncleanable: the logs given up, until the next start; ran_ms: when
    the logs were last looked through, by the time given then, None before the first time; dirtiest, overdue_ms: the
    largest dirty share and the longest delay that were found then among the logs that are left."""

    def __init__(self, cleaned: Callable[[Log], None]) -> None:
        self._cleaned = cleaned
        self.uncleanable: set[TopicPartition] = set()
        self.last = LastCleaning()
        self.ran_ms: int | None = None
        self.dirtiest = 0.0
        self.overdue_ms = 0

    def run(self, logs: Mapping[TopicPartition, Log], now_ms: int, settings: CleanerSettings) -> list[CleaningResult]:
        """Compact each log that needs it, once; gives what was done."""
        self.ran_ms = now_ms
        results: list[CleaningResult] = []
        done = set(self.uncleanable)
        while True:
            usable = [one for tp, one in list(logs.items()) if tp not in done and not one.is_offline]
            found = assessed(usable, now_ms)
            self.dirtiest = max((one.ratio for one in found), default=0.0)
            self.overdue_ms = max((one.overdue_ms for one in found), default=0)
            chosen = filthiest(found)
            if chosen is None:
                return results
            done.add(chosen.log.topic_partition)
            result = self._clean(chosen, now_ms, settings)
            if result is not None:
                results.append(result)

    def _clean(self, chosen: LogToClean, now_ms: int, settings: CleanerSettings) -> CleaningResult | None:
        one = chosen.log
        cleaner = Cleaner(one, chosen.first_dirty, chosen.first_uncleanable, now_ms, settings)
        begin = perf_counter()
        try:
            result = one.guarded("compacting", cleaner.clean)
        except CleaningAbortedError as e:
            log.info("compaction given up", partition=str(one.topic_partition), why=str(e))
            return None
        except (ApiError, ProtocolError) as e:
            log.warning("log is not compacted any more", partition=str(one.topic_partition), reason=str(e))
            self.uncleanable.add(one.topic_partition)
            return None
        one.cleaner_offset = result.end_offset
        kept = result.bytes_after / result.bytes_before if result.bytes_before else 0.0
        self.last = LastCleaning(perf_counter() - begin, kept, cleaner.map_use)
        log.info("compacted", partition=str(one.topic_partition), **result._asdict())
        self._cleaned(one)
        return result
