"""Kafka Connect's converters as column expressions; `make_converter` gives the one that properties ask for."""

from __future__ import annotations

from .base import Converter, Role
from .header_base import HeaderConverter
from .headers import HEADER_CONVERTERS, make_header_converter
from .registry import CONVERTERS, converter_class, make_converter

__all__ = [
    "CONVERTERS",
    "HEADER_CONVERTERS",
    "Converter",
    "HeaderConverter",
    "Role",
    "converter_class",
    "make_converter",
    "make_header_converter",
]
