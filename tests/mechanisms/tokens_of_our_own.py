"""Functions that tests name in `sasl.oauthbearer.jwt.retriever.class`."""

from __future__ import annotations

TOKENS: list[str] = []
"""What is given, the last one first."""


async def pop() -> str:
    """Give a token that no one has been given."""
    return TOKENS.pop()


def fail() -> str:
    """Give none."""
    raise RuntimeError("no token today")


class Retriever:
    """Gives the last token again and again."""

    def retrieve(self) -> str:
        """Give it."""
        return TOKENS[-1]
