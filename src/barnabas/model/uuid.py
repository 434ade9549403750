"""Kafka's 128-bit ids: topic ids, directory ids, incarnation ids, ACL ids."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final


class Uuid(bytes):
    """A 16-byte id that prints as Kafka prints it: URL-safe base64, 22 characters, no padding.

    A subclass of bytes, so that the codec makes one by slicing, and it hashes and compares at C speed.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Give the id that `text` (22 characters of URL-safe base64) spells; ValueError when it does not."""
        if len(text) != 22:
            raise ValueError(f"{text!r} is not a Kafka id: want 22 characters of URL-safe base64")
        try:
            return cls(urlsafe_b64decode(text + "=="))
        except ValueError as e:
            raise ValueError(f"{text!r} is not a Kafka id: {e}") from None

    def __str__(self) -> str:
        return urlsafe_b64encode(self).rstrip(b"=").decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({self})"


ZERO_UUID: Final = Uuid(bytes(16))
"""No id at all: the topic id of messages that name the topic instead."""
METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\x01")
"""The topic id of `__cluster_metadata`, the same in every cluster."""
RESERVED_UUIDS: Final = frozenset(Uuid(bytes(15) + bytes([n])) for n in range(100))
"""Ids that are never handed out at random: zero and the hundred lowest."""
