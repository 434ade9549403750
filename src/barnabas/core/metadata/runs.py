"""Replay many records in one go: a snapshot, a start, an operator's script.

Records of one kind mostly come together. A run takes them as long as they do, and the image is made anew once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from barnabas.core.metadata import topic_run
from barnabas.core.metadata.acls import AclRun
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.core.metadata.topic_run import TopicRun
from barnabas.core.replicated import VersionedRecord
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord


class _Kind(NamedTuple):
    """attribute: of `MetadataImage`, what the run is about; begin: makes a run from the image so far."""

    attribute: str
    begin: type[TopicRun] | type[AclRun]


_TOPICS: Final = _Kind("topics", TopicRun)
_ACLS: Final = _Kind("acls", AclRun)
_KIND_OF: Final[Mapping[type, _Kind]] = {
    **dict.fromkeys(topic_run.RUNS, _TOPICS),
    **dict.fromkeys((AccessControlEntryRecord, RemoveAccessControlEntryRecord), _ACLS),
}
"""The kind of run that takes a record; any record of another kind, or of none, ends it."""


class Runs:
    """An image, and the run that is not part of it yet."""

    __slots__ = ("_image", "_kind", "_run")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._kind: _Kind | None = None
        self._run: TopicRun | AclRun | None = None

    @property
    def image(self) -> MetadataImage:
        """The image after all records so far; ends the run."""
        if self._run is not None and self._kind is not None:
            made: Any = self._run.finish()
            self._image = replace(self._image, **{self._kind.attribute: made})
            self._kind = self._run = None
        return self._image

    @image.setter
    def image(self, image: MetadataImage) -> None:
        self._image = image
        self._kind = self._run = None

    def of(self, record: Any) -> TopicRun | AclRun | None:
        """Give the run that takes a record, begun for it unless it is under way; None when no run takes it."""
        kind = _KIND_OF.get(type(record))
        if kind is None:
            return None
        if self._run is None or kind is not self._kind:
            self._run = kind.begin(getattr(self.image, kind.attribute))
            self._kind = kind
        return self._run

    def take(self, record: Any) -> bool:
        """Say whether a run has taken a record; ReplayError when it does not fit, and nothing is changed."""
        run = self.of(record)
        if run is not None:
            run.add(record)
        return run is not None


def replay(image: MetadataImage, records: Iterable[VersionedRecord]) -> MetadataImage:
    """Give the image after the records, in their order; the offset stays, see `MetadataImage.at`."""
    runs = Runs(image)
    for versioned in records:
        record = versioned.record
        if not runs.take(record):
            runs.image = replay_one(runs.image, record)
    return runs.image
