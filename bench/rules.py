"""Many ACLs, as an organisation of a thousand users might have them: READ on a topic, every tenth on a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType

USERS: Final = 1000


def rules(count: int) -> Iterator[AclBinding]:
    """Give so many."""
    for i in range(count):
        prefixed = i % 10 == 0
        pattern = ResourcePattern(
            ResourceType.TOPIC,
            f"{'team' if prefixed else 'topic'}-{i}",
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        )
        yield AclBinding(pattern, f"User:user-{i % USERS}", "*", AclOperation.READ, AclPermissionType.ALLOW)
