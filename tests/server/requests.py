"""Requests from plain values: `build(ApiKey.FETCH, topics=[{"topic": "a"}])`; structures are found by their hints."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.wire.api_keys import API_KEYS, ApiKey


def build(key: ApiKey, /, **values: object) -> Any:
    """Give a request of an API; mappings become the structures that its fields hold."""
    return _struct(API_KEYS[key].request, values)


def error_codes(answer: object) -> Iterator[int]:
    """Give every error code in an answer, however deep."""
    if isinstance(answer, list):
        for item in answer:
            yield from error_codes(item)
    elif dataclasses.is_dataclass(answer):
        for spec in dataclasses.fields(answer):
            value = getattr(answer, spec.name)
            if spec.name == "error_code":
                yield value
            else:
                yield from error_codes(value)


def _struct(cls: Any, values: Mapping[str, object]) -> Any:
    hints = typing.get_type_hints(cls)
    return cls(**{name: _value(hints[name], value) for name, value in values.items()})


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, list):
        inner = _only(hint)
        return [_value(typing.get_args(inner)[0], item) for item in value]
    if isinstance(value, Mapping):
        return _struct(_only(hint), value)
    return value


def _only(hint: Any) -> Any:
    """Give the type of a field that may be None."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(one for one in typing.get_args(hint) if one is not type(None))
    return hint
