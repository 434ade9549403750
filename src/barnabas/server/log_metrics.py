"""What a node shows of its logs and directories: `kafka.log:...`.

Gauges of partitions are enumerated when somebody looks: ten thousand of them cost nothing while nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from barnabas.model.metrics import Bean, Metrics, Timer, Value, mbean
from barnabas.storage.cleaner_schedule import LogToClean, assess
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.log import Log
from barnabas.storage.log_dir import LogDir
from barnabas.storage.log_dirs import LogDirs
from barnabas.wire.errors import ApiError

LOG_HEAD: Final = "kafka.log:type=Log"
CLEANER_HEAD: Final = "kafka.log:type=LogCleanerManager"
_FLUSHES: Final = mbean("kafka.log", type="LogFlushStats", name="LogFlushRateAndTimeMs")
NEVER: Final = -1


def _size_of_retention(log: Log) -> int:
    limit = log.config.retention_bytes
    return log.size * 100 // limit if limit > 0 else 0


_OF_A_LOG: Final[dict[str, Callable[[Log], int]]] = {
    "LogEndOffset": lambda log: log.log_end_offset,
    "LogStartOffset": lambda log: log.log_start_offset,
    "NumLogSegments": lambda log: len(log.segments),
    "RetentionSizeInPercent": _size_of_retention,
    "Size": lambda log: log.size,
}


def publish_logs(registry: Metrics, logs: Callable[[], Iterable[Log]]) -> None:
    """Publish the gauges of each log that `logs` gives; those that move between directories have is-future=true."""

    def beans() -> Iterator[Bean]:
        for name, read in _OF_A_LOG.items():
            for log in list(logs()):
                tp = log.topic_partition
                tags = {"topic": tp.topic, "partition": str(tp.partition)}
                if log.dir.name != str(tp):
                    tags["is-future"] = "true"
                yield mbean("kafka.log", type="Log", name=name, **tags), {"Value": read(log)}

    registry.source(LOG_HEAD, beans)


class FlushTimes:
    """How often the logs of a node are flushed, and how long it takes; the metadata log's flushes among them."""

    def __init__(self, registry: Metrics) -> None:
        self._timer = Timer(registry.clock)
        self._lock = Lock()
        registry.bean(_FLUSHES, self._timer.attributes)

    def watch(self, environment: LogEnvironment) -> None:
        """Measure the flushes of all logs of an environment from now on."""
        environment.flushed = self._flushed

    def _flushed(self, took_ms: float) -> None:
        with self._lock:  # logs are flushed side by side
            self._timer.update(took_ms)


def publish_directories(registry: Metrics, log_dirs: LogDirs, cordoned: Callable[[], Iterable[Path]]) -> None:
    """Publish which directories have failed, and which take no new replicas."""

    def gauge(name: str, read: Callable[[], int], **tags: str) -> None:
        registry.gauge(mbean("kafka.log", type="LogManager", name=name, **tags), read)

    def is_cordoned(directory: LogDir) -> int:
        return int(directory.path in set(cordoned()))

    gauge("OfflineLogDirectoryCount", lambda: len(log_dirs.offline))
    gauge("CordonedLogDirectoryCount", lambda: sum(map(is_cordoned, log_dirs.directories)))
    for directory in log_dirs.directories:
        path = str(directory.path)
        gauge("LogDirectoryOffline", lambda d=directory: int(d.offline is not None), logDirectory=path)  # type: ignore[misc]
        gauge("LogDirectoryCordoned", lambda d=directory: is_cordoned(d), logDirectory=path)  # type: ignore[misc]


def publish_cleaner(registry: Metrics, log_dirs: LogDirs) -> None:
    """Publish what the compaction of logs does, and what it has to do."""
    compaction, clock = log_dirs.compaction, registry.clock

    def cleaner(name: str, read: Callable[[], Value]) -> None:
        registry.gauge(mbean("kafka.log", type="LogCleaner", name=name), read)

    cleaner("max-clean-time-secs", lambda: int(compaction.last.seconds))
    cleaner("cleaner-recopy-percent", lambda: int(100 * compaction.last.kept))
    cleaner("max-buffer-utilization-percent", lambda: int(100 * compaction.last.map_use))
    cleaner("max-compaction-delay-secs", lambda: compaction.overdue_ms // 1000)
    # A pass that comes to an end by a defect takes the node with it, so a node that can be asked has none.
    cleaner("DeadThreadCount", lambda: 0)

    def manager(name: str, read: Callable[[], Value], **tags: str) -> None:
        registry.gauge(mbean("kafka.log", type="LogCleanerManager", name=name, **tags), read)

    manager("time-since-last-run-ms", lambda: NEVER if (at := compaction.ran_ms) is None else clock.now_ms() - at)
    manager("max-dirty-percent", lambda: int(100 * compaction.dirtiest))

    def uncleanable(directory: LogDir) -> list[Log]:
        return [log for log in log_dirs.logs_in(directory) if log.topic_partition in compaction.uncleanable]

    for directory in log_dirs.directories:
        path = str(directory.path)
        manager("uncleanable-partitions-count", lambda d=directory: len(uncleanable(d)), logDirectory=path)  # type: ignore[misc]
        manager(
            "uncleanable-bytes",
            lambda d=directory: sum(one.cleanable_bytes for one in _assess(uncleanable(d), log_dirs)),  # type: ignore[misc]
            logDirectory=path,
        )


def _assess(logs: Iterable[Log], log_dirs: LogDirs) -> Iterator[LogToClean]:
    """Give what of these logs could be compacted now; one that is just being closed or deleted is left out."""
    now_ms = log_dirs.env.clock.now_ms()
    for log in logs:
        try:
            yield assess(log, now_ms)
        except (ApiError, OSError):
            continue
