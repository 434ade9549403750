"""Who commits a group's offsets, as a transaction has to say it (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A member of a group, as the coordinator knows it. generation: the member's epoch in the consumer protocol.

    With the group's id alone the coordinator does not check who commits.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
