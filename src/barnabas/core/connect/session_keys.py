"""The key that workers sign their requests to each other with, and when the leader replaces it (KIP-507)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A key as the config topic holds it. creation_timestamp_ms: wall clock of the leader that made it."""

    key: bytes = field(repr=False)
    algorithm: str
    creation_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class KeySettings:
    """How this worker makes keys while it leads.

    size_bytes: of a key; ttl_ms: how long one is used, 0 for without end (`inter.worker.key.ttl.ms`).
    """

    algorithm: str
    size_bytes: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """Whether the leader makes a new key now; else when to ask again, ms of the wall clock, None for never."""

    due: bool
    next_check_ms: int | None


def renewal(current: SessionKey | None, settings: KeySettings, now_ms: int) -> Renewal:
    """Say whether a leader replaces the current key.

    A new leader inherits the key together with its age. It replaces at once what its own settings would not have made,
    another algorithm or another length, so that a rolling change of settings takes effect with the next leader. With a
    ttl of 0 no age is too old, after a restart neither (a JVM leader makes one new key then). now_ms: wall clock, as
    the stamps in keys are. KIP-507, C-11 to C-15, C-38, H-25.
    """
    if current is None or current.algorithm != settings.algorithm or len(current.key) != settings.size_bytes:
        return Renewal(due=True, next_check_ms=None)
    if settings.ttl_ms == 0:
        return Renewal(due=False, next_check_ms=None)
    expiry_ms = current.creation_timestamp_ms + settings.ttl_ms
    return Renewal(due=True, next_check_ms=None) if expiry_ms <= now_ms else Renewal(False, expiry_ms)
