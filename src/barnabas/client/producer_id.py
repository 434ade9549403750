"""Whom brokers take a producer for."""

from __future__ import annotations

from typing import Final, NamedTuple


class ProducerId(NamedTuple):
    """Whom the broker counts sequences for. A higher epoch of the same id fences the lower ones."""

    id: int
    epoch: int


NO_PRODUCER: Final = ProducerId(-1, -1)
