"""Tells a group about every finished batch, also the last one of a query that is stopped between two triggers.

Spark reports a batch to listeners once it stands in its commit log. A listener sees that without being asked to plan
another batch, which is all that the source itself is ever asked (see `stream_reader`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import structlog
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from barnabas.model.acl import AclOperation
from barnabas.spark import lookup
from barnabas.spark.bridge import borrow
from barnabas.spark.explain import SourceError, explained
from barnabas.spark.offsets import OptionError, PartitionOffsets, offsets_from_json
from barnabas.spark.options import Assignment, ReadOptions, TopicNames, parse_read_options

log: Final = structlog.get_logger("barnabas.spark.group_offsets")


class GroupOffsetListener(StreamingQueryListener):
    """Commits where the queries of a session stand. options: those of the `readStream`, `kafka.group.id` included.

    Add it with `spark.streams.addListener`, in the process of the query or through Spark Connect.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_read_options(options, streaming=True)
        if self._options.group_id is None:
            raise OptionError("kafka.group.id is missing: there is no group to tell")

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Take notice of nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Commit the end of the batch in every source that reads what the options select."""
        for source in event.progress.sources:
            offsets = _offsets(source.endOffset)
            if offsets and all(_selected(self._options, partition.topic) for partition in offsets):
                self._commit(offsets)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Take notice of nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take notice of nothing."""

    def _commit(self, offsets: PartitionOffsets) -> None:
        group = self._options.group_id
        assert group is not None
        try:
            with borrow(self._options.client) as bridge, explained(bridge.config, AclOperation.READ):
                bridge.call(lambda cluster: lookup.commit(cluster, group, offsets))
        except SourceError as error:  # the query goes on without; a later batch or the next run tells the group
            log.warning("offsets not committed", group=group, why=str(error))


def _offsets(text: str | None) -> PartitionOffsets | None:
    """Give the offsets of a source of ours; None for what another source wrote."""
    try:
        value = json.loads(text) if text else None
        return offsets_from_json(value) if value else None
    except (ValueError, TypeError, AttributeError):
        return None


def _selected(options: ReadOptions, topic: str) -> bool:
    selection = options.selection
    if isinstance(selection, TopicNames):
        return topic in selection.topics
    if isinstance(selection, Assignment):
        return any(partition.topic == topic for partition in selection.partitions)
    return re.fullmatch(selection.pattern, topic) is not None
