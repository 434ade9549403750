"""Which replicas of a topic count against a replication quota, as its configuration lists them (KIP-73)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The partitions of a topic whose replica on one broker is throttled; None means all."""

    partitions: frozenset[int] | None = frozenset()

    def __contains__(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions

    def __bool__(self) -> bool:
        return self.partitions is None or bool(self.partitions)


NOT_THROTTLED: Final = ThrottledReplicas()


def throttled_on(broker_id: int, text: str) -> ThrottledReplicas:
    """Give what `*.replication.throttled.replicas` says of a broker: `*`, or partition:broker, separated by commas.

    ValueError when it is neither.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if entries == [ALL]:
        return ThrottledReplicas(None)
    pairs = [entry.split(":") for entry in entries]
    return ThrottledReplicas(frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id))
