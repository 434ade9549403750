"""Who somebody is, after authentication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """A principal as Kafka writes it, `User:alice`.

    token_authenticated: it came by a delegation token; two principals are equal whether or not they did.
    """

    principal_type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> KafkaPrincipal:
        """Give the principal that `Type:name` spells; ValueError when there is no colon or an empty side."""
        principal_type, colon, name = text.partition(":")
        if not colon or not principal_type or not name:
            raise ValueError(f"{text!r} is not a principal: want Type:name, for example User:alice")
        return cls(principal_type, name)

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


USER_TYPE: Final = "User"
ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""The principal of a connection without authentication."""
