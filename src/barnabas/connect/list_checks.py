"""Checks of settings that are lists, as Kafka makes them."""

from __future__ import annotations

from barnabas.model.config import not_empty


def no_empty_item(value: list[str]) -> str | None:
    """Allow lists in which every item says something, the empty list too."""
    return None if all(value) else "want no empty item"


def some_items(value: list[str]) -> str | None:
    """Allow such lists with at least one item."""
    return not_empty(value) or no_empty_item(value)
