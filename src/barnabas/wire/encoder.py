"""Compile the writer of one message in one version: straight-line Python, nothing looked up while it runs.

The generated function is `encode(o0, parts)`: it appends buffers to parts. All goes into one bytearray `b`;
only the value of a `records` field is appended as it is, uncopied, between two of them. Values that do not fit
surface as struct.error, TypeError, AttributeError or UnicodeError; `barnabas.wire.message` makes them ProtocolError.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn

from barnabas.model.uuid import ZERO_UUID
from barnabas.wire.declaration import FieldSpec, Message, Struct, field_specs
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import FORMATS, MAX_STRING_BYTES, ArrayFormats, uvarint

_EMPTY: Final = object()


def encoder(cls: type[Message], version: int) -> Any:
    """Give the compiled writer."""
    writer = _EncoderSource(version, version >= cls.FLEXIBLE_FROM)
    source = writer.function(cls)
    exec(compile(source, f"<encode {cls.__name__} v{version}>", "exec"), writer.names)
    return writer.names["encode"]


def _null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} must not be None in this version")


def _absent(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is set, but does not exist in this version")


def _too_long(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is too long")


def _id(value: bytes, name: str) -> bytes:
    if len(value) != 16:
        raise ProtocolError(f"{name} is not an id of 16 bytes")
    return value


class _EncoderSource:
    """Writes the source of one writer. Locals: b the buffer, o<depth> the object being written, s, n scratch."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.run: list[tuple[str, str]] = []
        """Fixed-width values not yet written: (expression, format code); `x` is a zero byte."""
        self.names: dict[str, Any] = {
            "uvarint": uvarint,
            "null": _null,
            "absent": _absent,
            "too_long": _too_long,
            "id16": _id,
            "ZERO_UUID": ZERO_UUID,
        }

    def function(self, cls: type[Message]) -> str:
        self.struct(cls, 0)
        self.flush()
        self.put("if b: parts.append(b)")
        bound = ", ".join(f"{name}={name}" for name in self.names)
        return "\n".join((f"def encode(o0, parts, {bound}):", "    b = bytearray()", *self.lines, ""))

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def bind(self, name: str, value: object) -> str:
        """Make a value a constant of the function."""
        self.names[name] = value
        return name

    def flush(self) -> None:
        """Write the fixed-width values gathered so far."""
        if not self.run:
            return
        codes = [code for _, code in self.run]
        values = ", ".join(value for value, code in self.run if code != "x")
        if codes == ["x"]:
            self.put("b.append(0)")
        else:
            packed = ">" + "".join(codes)
            name = self.bind("P_" + packed[1:].replace("?", "t"), struct.Struct(packed).pack)
            self.put(f"b += {name}({values})")
        self.run = []

    def struct(self, cls: type[Struct], depth: int) -> None:
        """Write o<depth>; may leave a run open."""
        here = f"o{depth}"
        tagged: list[FieldSpec] = []
        specs = field_specs(cls)
        for f in specs:
            if self.version not in f.on.versions and not f.on.ignorable:
                self.put(f"if {self.differs(f, f'{here}.{f.name}')}: absent({f.name!r})")
        for f in specs:
            if self.version not in f.on.versions:
                continue
            if self.version in f.on.tagged:
                tagged.append(f)
            else:
                self.value(f, f"{here}.{f.name}", depth)
        if self.flexible:
            self.tags(sorted(tagged, key=lambda f: f.on.tag), here, depth)

    def differs(self, f: FieldSpec, target: str) -> str:
        """Give the expression that is true when the field has not its default."""
        if f.default_factory is list:
            return f"({target} != [])"
        if f.struct is not None and f.default_factory is not None:
            parts = [self.differs(sub, f"{target}.{sub.name}") for sub in field_specs(f.struct)]
            inner = " or ".join(parts) or "False"
            return f"({target} is None or {inner})" if f.on.nullable.low <= f.on.nullable.high else f"({inner})"
        if f.default is None:
            return f"({target} is not None)"
        return f"({target} != {'ZERO_UUID' if f.kind == 'uuid' else repr(f.default)})"

    def tags(self, tagged: list[FieldSpec], here: str, depth: int) -> None:
        if not tagged:
            self.run.append(("", "x"))
            return
        self.flush()
        flags = [f"t{depth}_{f.on.tag}" for f in tagged]
        for f, flag in zip(tagged, flags, strict=True):
            self.put(f"{flag} = {self.differs(f, f'{here}.{f.name}')}")
        self.put(f"n = {' + '.join(flags)}")
        self.put("b.append(n)")
        self.put("if n:")
        self.indent += 1
        for f, flag in zip(tagged, flags, strict=True):
            self.put(f"if {flag}:")
            self.indent += 1
            self.put(f"b{depth} = b; b = bytearray()")
            self.value(f, f"{here}.{f.name}", depth)
            self.flush()
            self.put(f"b{depth} += {uvarint(f.on.tag)!r}; b{depth} += uvarint(len(b)); b{depth} += b; b = b{depth}")
            self.indent -= 1
        self.indent -= 1

    def value(self, f: FieldSpec, target: str, depth: int) -> None:
        """Write one field."""
        flexible = self.flexible and f.on.flexible
        nullable = self.version in f.on.nullable
        if f.kind == "uuid":
            self.run.append((f"id16({target}, {f.name!r})", "16s"))
        elif f.kind in FORMATS:
            self.run.append((target, FORMATS[f.kind]))
        elif f.kind == "struct":
            self.nested(f, target, depth, nullable)
        else:
            self.length(f, flexible, nullable, target, depth)

    def nested(self, f: FieldSpec, target: str, depth: int, nullable: bool) -> None:
        assert f.struct is not None
        self.flush()
        inner = f"o{depth + 1}"
        self.put(f"{inner} = {target}")
        # Kafka marks absence by -1 in a plain field, by 0 in a tagged one.
        marker = 0 if self.version in f.on.tagged else 255
        self.put(f"if {inner} is None: {f'b.append({marker})' if nullable else f'null({f.name!r})'}")
        if nullable:
            self.put("else:")
            self.indent += 1
            self.put("b.append(1)")
        self.struct(f.struct, depth + 1)
        self.flush()
        self.indent -= int(nullable)

    def length(self, f: FieldSpec, flexible: bool, nullable: bool, target: str, depth: int) -> None:
        """Write what begins with its length: strings, bytes, records, arrays."""
        local = f"x{depth}" if f.kind == "array" else "s"
        nothing = repr(b"\0" if flexible else b"\xff\xff" if f.kind == "string" else b"\xff\xff\xff\xff")
        if self.run and not nullable and not flexible and f.kind != "string":
            self.put(f"{local} = {target}")
            self.put(f"if {local} is None: null({f.name!r})")
            self.run.append((f"len({local})", "i"))
            self.flush()
            self.content(f, local, depth)
            return
        self.flush()
        self.put(f"{local} = {target}")
        self.put(f"if {local} is None: {f'b += {nothing}' if nullable else f'null({f.name!r})'}")
        self.put("else:")
        self.indent += 1
        if f.kind == "string":
            self.put("s = s.encode()")
        if f.element in FORMATS and f.element != "uuid":
            self.numbers(f, local, flexible)
        else:
            self.prefix(f, local, flexible)
            self.content(f, local, depth)
        self.indent -= 1

    def prefix(self, f: FieldSpec, local: str, flexible: bool) -> None:
        """Write the length of `local`."""
        if flexible:
            self.put(f"n = len({local}) + 1")
            self.put("if n < 128: b.append(n)")
            self.put("else:")
            if f.kind == "string":
                self.put(f"    if n > {MAX_STRING_BYTES + 1}: too_long({f.name!r})")
            self.put("    b += uvarint(n)")
        else:
            code = "h" if f.kind == "string" else "i"
            self.put(f"b += {self.bind('P_' + code, struct.Struct('>' + code).pack)}(len({local}))")

    def numbers(self, f: FieldSpec, local: str, flexible: bool) -> None:
        """Write an array of numbers, its length included."""
        code = FORMATS[f.element]
        name = self.bind(f"N_{f.element}", ArrayFormats(code, "pack"))
        if not flexible:
            self.prefix(f, local, flexible)
            self.put(f"b += {name}[len({local})](*{local})")
            return
        self.prefix(f, local, flexible)
        self.put(f"if n > 1: b += {name}[n - 1](*{local})")

    def content(self, f: FieldSpec, local: str, depth: int) -> None:
        """Write what follows the length."""
        if f.kind == "records":
            self.put("if b: parts.append(b)")
            self.put("parts.append(s); b = bytearray()")
        elif f.kind != "array":
            self.put("b += s")
        elif f.element in FORMATS and f.element != "uuid":
            name = self.bind(f"N_{f.element}", ArrayFormats(FORMATS[f.element], "pack"))
            self.put(f"b += {name}[len({local})](*{local})")
        else:
            inner = f"o{depth + 1}"
            self.put(f"for {inner} in {local}:")
            self.indent += 1
            if f.struct is not None:
                self.struct(f.struct, depth + 1)
            else:
                self.value(FieldSpec(f.name, f.element, f.on), inner, depth + 1)
            self.flush()
            self.indent -= 1
