"""What gathers for the next Ready."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.ready import Entry, InstallSnapshot, Outgoing, Reply


@dataclass(slots=True)
class Outbox:
    """written_to: the end of what was handed out to be written, on disk or on its way there."""

    written_to: int
    truncate_to: int | None = None
    snapshot: InstallSnapshot | None = None
    entries: list[Entry] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    requests: list[Outgoing] = field(default_factory=list)

    def truncate(self, offset: int) -> None:
        """Take back entries at `offset` and later; what was handed out already has to be cut from the disk."""
        while self.entries and self.entries[-1].base_offset >= offset:
            self.entries.pop()
        if offset < self.written_to:
            self.truncate_to = offset if self.truncate_to is None else min(offset, self.truncate_to)
            self.written_to = offset

    def handed_out(self) -> None:
        """Begin anew after a Ready took everything."""
        if self.snapshot is not None and self.snapshot.last:
            self.written_to = self.snapshot.id.offset
        if self.entries:
            self.written_to = self.entries[-1].end_offset
        self.truncate_to = None
        self.snapshot = None
        self.entries.clear()
        self.replies.clear()
        self.requests.clear()
