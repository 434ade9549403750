"""A follower's fetch session: it may hold thousands of partitions, of which few have news at a time.

The session watches the leaders it fetches from. What has grown, what has something to tell, and what the follower
itself names is due; an answer is made of what is due and of nothing else. A partition that is not due stands at the
end of its log at the follower too, so each of the follower's fetches says that it is caught up there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.server.replication.fetch_sessions import FetchSession, NewSession, PartitionKey, Wanted

if TYPE_CHECKING:
    from barnabas.server.replication.partition import Partition


@dataclass(slots=True, eq=False)
class Watched(Wanted):
    """A partition of a follower's session; `partition`: the replica here that it was found to be."""

    session: FollowerSession | None = None
    partition: Partition | None = None

    def grown(self) -> None:
        """Take note that records were added, or that the replica has changed its role."""
        if self.session is not None:
            self.news()
            self.session.wake()

    def news(self) -> None:
        """Take note that there is something to tell with the next answer."""
        session = self.session
        if session is not None and session.mark(self) and self.partition is not None:
            self.partition.follower_rested(session.replica_id, session.last_used_ms)

    def watch(self, partition: Partition) -> None:
        """Look at this replica from now on; the follower's session before this one looks away."""
        if self.session is not None and self.partition is not partition:
            self.look_away()
            self.partition = partition
            partition.tails[self.session.replica_id] = self

    def look_away(self) -> None:
        """Look at no replica."""
        if self.partition is not None and self.session is not None:
            tails, replica_id = self.partition.tails, self.session.replica_id
            if tails.get(replica_id) is self:
                del tails[replica_id]
        self.partition = None


@dataclass(slots=True)
class FollowerSession(FetchSession):
    """What a follower fetches. replica_id: its broker; reading: called when something grew, while a fetch waits."""

    replica_id: int = -1
    reading: Callable[[], None] | None = None
    due: dict[PartitionKey, Watched] = field(default_factory=dict)

    @property
    def privileged(self) -> bool:
        """Whether it is a follower's, and may take the place of a consumer's."""
        return True

    def take(self, wanted: Wanted) -> None:
        """Fetch a partition from now on, or from another offset."""
        known = self.partitions.get(wanted.key)
        if isinstance(known, Watched):
            known.request = wanted.request
        else:
            known = Watched(wanted.topic, wanted.topic_id, wanted.request, session=self)
            self.partitions[wanted.key] = known
        self.due.pop(wanted.key, None)
        self.due[wanted.key] = known

    def forget(self, key: PartitionKey) -> None:
        """Fetch a partition no more."""
        gone = self.partitions.pop(key, None)
        if isinstance(gone, Watched):
            gone.look_away()
            self.due.pop(key, None)

    def wanted(self) -> list[Wanted]:
        """Give what is to be looked at for the next answer."""
        return list(self.due.values())

    def mark(self, watched: Watched) -> bool:
        """Let a partition be due; False when it is already."""
        if watched.key in self.due:
            return False
        self.due[watched.key] = watched
        return True

    def settled(self, wanted: Wanted) -> None:
        """Let a partition rest: the follower has, or is being sent, all there is."""
        self.due.pop(wanted.key, None)

    def wake(self) -> None:
        """Tell the fetch that waits, if one does."""
        if self.reading is not None:
            self.reading()

    def close(self) -> None:
        """Be a session no more."""
        for key in list(self.partitions):
            self.forget(key)


def follower_session(replica_id: int) -> NewSession:
    """Give what makes empty sessions of a follower."""

    def new(session_id: int, by_topic_id: bool, now_ms: int) -> FetchSession:
        return FollowerSession(session_id, 1, by_topic_id, now_ms, replica_id=replica_id)

    return new
