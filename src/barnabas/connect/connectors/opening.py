"""Opening what a sink writes to: with the task, or, where it cannot be reached then, with the first batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from barnabas.connect.connector import FencedError, RetriableError, TaskContext
from barnabas.model.topic_partition import TopicPartition

Open = Callable[[], Mapping[TopicPartition, int] | None]
"""Gives where partitions go on, as the data says, None where it says nothing; RetriableError: not now."""
log: Final = structlog.get_logger("barnabas.connect.sink")


class Opening:
    """What a task knows of where it goes on. Batches are retried as `errors.retry.timeout` says, and so is this."""

    def __init__(self, open: Open, task: TaskContext) -> None:
        self._open = open
        self._task = task
        self._is_open = False
        self.known: Mapping[TopicPartition, int] | None = None
        """Where partitions go on; None also while that is not known yet."""

    def try_now(self) -> None:
        """Open; when that fails for now, leave it to the first batch."""
        try:
            self._do()
        except RetriableError as error:
            task = f"{self._task.connector}-{self._task.task}"
            log.warning("what the sink writes to is waited for", task=task, why=str(error))

    def before_batch(self) -> None:
        """Open unless it is open; FencedError where the batch begins as the group says, and the data says otherwise."""
        if self._is_open:
            return
        self._do()
        for each, offset in self._task.batch_begins.items():
            known = (self.known or {}).get(each, offset)
            if known != offset:
                raise FencedError(f"{each} goes on at {known} and not at {offset}, as is known only now")

    def _do(self) -> None:
        self.known = self._open()
        self._is_open = True
