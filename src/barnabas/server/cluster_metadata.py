"""What a node asks of the source of its cluster's metadata, and of the controller in its process (design D11).

A replica of the metadata log is one (`metadata_replica`, `controller`), ZooKeeper the other (`zookeeper.metadata`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.server.forwarding.controller_channel import ActiveController
from barnabas.server.waiting import Progress

R = TypeVar("R")
Follower = Callable[[MetadataDelta], None]


class ClusterMetadata(Protocol):
    """The committed metadata, as one image after another. `run` is its task."""

    async def run(self) -> None:
        """Load the metadata and follow it until `stop`."""
        ...

    async def caught_up(self) -> MetadataImage:
        """Wait until the cluster's metadata is known here, and give it; what is new from then on waits for `follow`."""
        ...

    def follow(self, follower: Follower) -> None:
        """Tell `follower` every delta from the image that `caught_up` gave on, in order."""
        ...

    async def stop(self, *, hand_over: bool = True) -> None:
        """Finish what is under way, and end `run`; hand_over: give up leading in an orderly way."""
        ...

    def own_records(self) -> Iterator[VersionedRecord]:
        """Give what this node's disk says of the metadata, before what is committed is known."""
        ...

    def active_controller(self) -> ActiveController | None:
        """Give who is the active controller and where, None while that is not known."""
        ...

    async def controller_changed(self) -> None:
        """Wait until another node, or none, is the active controller."""
        ...

    def progress(self) -> Progress:
        """Give how much is known while a node waits for the rest."""
        ...


class MetadataWriter(Protocol):
    """Who changes metadata by decisions."""

    async def write(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Decide on the newest metadata, write what was decided, and give its response when that is committed.

        Raises what `decide` raises; ApiError NOT_CONTROLLER when this node may not, or ceases to be allowed to before
        the commit: then it is not known whether the change will hold.
        """
        ...


class DecidingController(MetadataWriter, Protocol):
    """The controller of this process, while it is the active one."""

    @property
    def is_active(self) -> bool:
        """Whether it takes writes."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The newest metadata, committed or not: what decisions see."""
        ...
