"""Which error codes the answers to a kind of request carry, and how often: every field `error_code` there is.

Each answer goes through this, so what looks for the fields is made once for each kind of answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final

from barnabas.wire.declaration import Message, Struct, field_specs

Counts = defaultdict[int, int]
"""How often each code was seen, 0 (NONE) among them."""
CountErrors = Callable[[Message], None]
_Get = Callable[[Any], Iterable[Any] | None]
_NONE: Final = ()


def error_counter(answer: type[Message], counts: Counts) -> CountErrors:
    """Give what adds the error codes of such an answer to `counts`."""
    counters = [_counter(path, counts) for path in _paths(answer)]
    if len(counters) == 1:
        return counters[0]

    def count_all(found: Message) -> None:
        for count in counters:
            count(found)

    return count_all


def _paths(cls: type[Struct]) -> Iterable[tuple[_Get, ...]]:
    """Give the ways, from list to list, to the structs that have an error code."""
    for spec in field_specs(cls):
        if spec.name == "error_code":
            yield _NONE
        elif spec.struct is not None:
            get = _getter(spec.name, many=spec.kind == "array")
            yield from ((get, *rest) for rest in _paths(spec.struct))


def _getter(name: str, *, many: bool) -> _Get:
    get = attrgetter(name)
    return get if many else lambda struct: _NONE if (found := get(struct)) is None else (found,)


def _counter(path: tuple[_Get, ...], counts: Counts) -> Callable[[Any], None]:
    if not path:

        def own(struct: Any) -> None:
            counts[struct.error_code] += 1

        return own
    get, *rest = path
    if len(rest) == 1:
        return _nested(get, rest[0], counts)
    deeper = _counter(tuple(rest), counts)

    def branches(struct: Any) -> None:
        for branch in get(struct) or _NONE:
            deeper(branch)

    return branches


def _nested(outer: _Get, inner: _Get, counts: Counts) -> Callable[[Any], None]:
    """Give two loops without calls: Produce and Fetch have such codes."""

    def leaves(struct: Any) -> None:
        for branch in outer(struct) or _NONE:
            for leaf in inner(branch) or _NONE:
                counts[leaf.error_code] += 1

    return leaves
