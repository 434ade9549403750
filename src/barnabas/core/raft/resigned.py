"""The role of a replica that led its epoch, and stopped or was restarted.

It must neither lead that epoch again nor vote in it: records that were lost unflushed would otherwise come back with
the same offset and epoch, but other content.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.election import ElectionState


@dataclass(frozen=True, slots=True)
class Resigned:
    """Led `epoch`; only a later epoch moves it."""

    epoch: int
    node_id: int

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.node_id)
