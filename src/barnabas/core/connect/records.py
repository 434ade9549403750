"""A record of one of Connect's three topics, as it is written."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """A key, and a value or, with None, the end of what the key stood for."""

    key: bytes
    value: bytes | None
