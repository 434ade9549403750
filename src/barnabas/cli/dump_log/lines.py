"""What the parts of `barnabas dump-log` share: its options, and a line of its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.wire.record_batch import Record


class Line(NamedTuple):
    """One line: as Kafka's tool words it, and as data."""

    text: str
    data: dict[str, Any]


class Decoded(NamedTuple):
    """A record's key and value made readable. None: there is none."""

    key: Any
    value: Any


Decoder = Callable[[Record], Decoded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to print of a file."""

    print_data: bool
    deep: bool
    decoder: Decoder
    skip_record_metadata: bool
    max_bytes: int | None
    verify_only: bool
    sanity_only: bool
