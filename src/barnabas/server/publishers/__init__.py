"""Who follows the metadata log on a node. Each gets (delta, image), in the order of a tuple in `server.node`."""

from __future__ import annotations

from typing import Protocol

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage


class Publisher(Protocol):
    """A subscriber to the image. It returns nothing, so that it can neither write records nor answer a request."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up what has changed; `image` is `delta.after`."""
        ...
