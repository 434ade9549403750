"""Which error codes the answers to a kind of request carry, and how often: every field `error_code` there is.

Each answer goes through this, so what looks for the fields is compiled for each kind of answer, as its writer is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.wire.declaration import Message, Struct, field_specs

Counts = defaultdict[int, int]
"""How often each code was seen, 0 (NONE) among them."""
CountErrors = Callable[[Message], None]


def error_counter(answer: type[Message], counts: Counts) -> CountErrors:
    """Give what adds the error codes of such an answer to `counts`."""
    lines = ["def count(x0):", *(_lines(answer, 0) or ["    pass"])]
    names: dict[str, Any] = {"counts": counts}
    exec(compile("\n".join(lines), f"<errors of {answer.__name__}>", "exec"), names)
    found: CountErrors = names["count"]
    return found


def _lines(cls: type[Struct], depth: int) -> list[str]:
    """Give the code that counts what stands in the struct `x<depth>`; nothing where it has no code."""
    return [f"{'    ' * (depth + 1)}{line}" for line in _of_struct(cls, depth)]


def _of_struct(cls: type[Struct], depth: int) -> Iterator[str]:
    inner = depth + 1
    for spec in field_specs(cls):
        value = f"x{depth}.{spec.name}"
        if spec.name == "error_code":
            yield f"counts[{value}] += 1"
        elif spec.struct is not None and (body := list(_of_struct(spec.struct, inner))):
            several = spec.kind == "array"
            yield f"for x{inner} in {value} or ():" if several else f"if (x{inner} := {value}) is not None:"
            yield from (f"    {line}" for line in body)
