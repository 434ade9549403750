"""Kafka's predicates, which say to which records a transformation applies."""

from __future__ import annotations

from .base import PREDICATES, Predicate, RecordIsTombstone, predicates

__all__ = ["PREDICATES", "Predicate", "RecordIsTombstone", "predicates"]
