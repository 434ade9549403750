"""Every message class, and values for them: by a seed, so that a failure names all it needs to come back."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import barnabas.wire.messages
import barnabas.wire.records
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.declaration import FieldSpec, Message, Struct, field_specs


def _all_messages() -> list[type[Message]]:
    found: list[type[Message]] = []
    for package in (barnabas.wire.messages, barnabas.wire.records):
        for module in pkgutil.iter_modules(package.__path__):
            members = vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
            found += [m for m in members if isinstance(m, type) and issubclass(m, Message) and m is not Message]
    return found


MESSAGES: Final = _all_messages()
VERSIONS: Final = [(cls, v) for cls in MESSAGES for v in range(cls.MIN_VERSION, cls.MAX_VERSION + 1)]
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS: Final = ("", "a", "orders", "ünï", "topic-1", "\U0001f40d", "x" * 126, "y" * 127, "z" * 300)


@dataclass
class Maker:
    """Makes instances for one version. wide: lists of up to that many elements; codes: only these error codes."""

    version: int
    random: Random
    wide: int = 3
    codes: tuple[int, ...] = ()
    small_numbers: bool = False

    def make(self, cls: type[Struct]) -> Any:
        """Give an instance that can be said in the version: what it has not keeps its default."""
        values = {f.name: self.value(f) for f in field_specs(cls) if self.version in f.on.versions}
        return cls(**values)

    def value(self, f: FieldSpec) -> object:
        if self.version in f.on.nullable and self.random.random() < 0.2:
            return None
        if self.version in f.on.tagged and self.random.random() < 0.4:
            return f.fresh_default()
        if f.kind == "array":
            return [self.one(f, f.element) for _ in range(self.random.randint(0, self.wide))]
        return self.one(f, f.kind)

    def one(self, f: FieldSpec, kind: str) -> object:
        r = self.random
        if f.struct is not None:
            return self.make(f.struct)
        if kind == "string":
            return r.choice(_TEXTS)
        if kind in ("bytes", "records"):
            return r.randbytes(r.choice((0, 1, 5, 127, 128, 200)))
        if kind == "uuid":
            return r.choice((ZERO_UUID, Uuid(r.randbytes(16))))
        if kind == "bool":
            return r.random() < 0.5
        if kind == "float64":
            return r.choice((0.0, -1.5, 1e300))
        if f.name == "error_code" and self.codes:
            return r.choice(self.codes)
        if self.small_numbers:
            return r.randint(0, 100)
        if kind in ("uint16", "uint32"):
            return r.choice((0, 1, 9092, 2 ** int(kind[4:]) - 1))
        top = 1 << _BITS[kind] - 1
        return r.choice((0, 1, -1, 42, top - 1, -top, r.randrange(-top, top)))
