"""Which names a topic may have."""

from __future__ import annotations

import re
from typing import Final

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
MAX_NAME_LENGTH: Final = 249
_VALID: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name(name: str) -> str | None:
    """Say what is wrong with a topic's name and what would be right; None when nothing is."""
    if not name:
        return "a topic's name cannot be empty"
    if name in (".", ".."):
        return f"a topic cannot be called {name!r}"
    if len(name) > MAX_NAME_LENGTH:
        return f"a topic's name has at most {MAX_NAME_LENGTH} characters, {name[:20]!r}... has {len(name)}"
    if not _VALID.fullmatch(name):
        return f"{name!r} is not a topic name: only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None
