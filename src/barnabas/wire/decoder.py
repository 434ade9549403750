"""Compile the reader of one message in one version: straight-line Python, nothing looked up while it runs.

Runs of fixed-width fields become one `unpack_from`, structs inside arrays are read in place, one-byte varints
take the short way. The generated function is `decode(buf, p, e) -> (message, position)`: p the start, e the end
of the bytes. Lengths are compared with what is left before anything is made; reads past the end surface as
IndexError or struct.error, which `barnabas.wire.message` turns into ProtocolError.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.declaration import FieldSpec, Message, Struct, field_specs
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import FORMATS, MAX_STRING_BYTES, ArrayFormats, uvarint_rest

_WIDTH: Final = {name: struct.calcsize(">" + code) for name, code in FORMATS.items()}


def decoder(cls: type[Message], version: int) -> Any:
    """Give the compiled reader."""
    writer = _DecoderSource(version, version >= cls.FLEXIBLE_FROM)
    source = writer.function(cls)
    exec(compile(source, f"<decode {cls.__name__} v{version}>", "exec"), writer.names)
    return writer.names["decode"]


def minimum_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Give the fewest bytes that a struct takes; at least 1, so that a count is always bounded by the bytes."""
    size = sum(_minimum(f, version, flexible and f.on.flexible) for f in field_specs(cls) if _in_body(f, version))
    return max(1, size + int(flexible))


def _in_body(f: FieldSpec, version: int) -> bool:
    return version in f.on.versions and version not in f.on.tagged


def _minimum(f: FieldSpec, version: int, flexible: bool) -> int:
    if f.kind in _WIDTH:
        return _WIDTH[f.kind]
    if f.kind == "struct" and f.struct is not None:
        return 1 if version in f.on.nullable else minimum_size(f.struct, version, flexible)
    if flexible:
        return 1
    return 2 if f.kind == "string" else 4


def _short() -> NoReturn:
    raise ProtocolError("the message ends too early")


def _null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} must not be null")


def _too_long(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is too long")


def _misfit(name: str) -> NoReturn:
    raise ProtocolError(f"tagged field {name} does not have the size it says")


def _skip_tags(buf: Any, p: int, e: int, n: int) -> int:
    """Skip a section of n (first byte read) tagged fields, none of which we know."""
    if n > 127:
        n, p = uvarint_rest(buf, p, n)
    for _ in range(n):
        p, size = _tag_head(buf, p, e)[1:]
        p += size
    return p


def _tag_head(buf: Any, p: int, e: int) -> tuple[int, int, int]:
    """Give (tag, position of the value, its size)."""
    tag = buf[p]
    p += 1
    if tag > 127:
        tag, p = uvarint_rest(buf, p, tag)
    size = buf[p]
    p += 1
    if size > 127:
        size, p = uvarint_rest(buf, p, size)
    if p + size > e:
        _short()
    return tag, p, size


class _DecoderSource:
    """Writes the source of one reader. Locals: buf, p, e; o<depth> the object being filled; n, q scratch."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.run: list[tuple[str, str]] = []
        """Fixed-width values not yet read: (target, format code)."""
        self.after_run: list[str] = []
        self.names: dict[str, Any] = {
            "new": object.__new__,
            "uv": uvarint_rest,
            "short": _short,
            "null": _null,
            "too_long": _too_long,
            "misfit": _misfit,
            "skip_tags": _skip_tags,
            "tag_head": _tag_head,
            "Uuid": Uuid,
            "ZERO_UUID": ZERO_UUID,
        }

    def function(self, cls: type[Message]) -> str:
        self.struct(cls, 0)
        self.flush()
        self.put("return o0, p")
        bound = ", ".join(f"{name}={name}" for name in self.names)
        return "\n".join((f"def decode(buf, p, e, {bound}):", *self.lines, ""))

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def bind(self, name: str, value: object) -> str:
        """Make a value a constant of the function."""
        self.names[name] = value
        return name

    def flush(self) -> None:
        """Read the fixed-width values gathered so far."""
        if self.run:
            packed = ">" + "".join(code for _, code in self.run)
            size = struct.calcsize(packed)
            reader = self.bind("U_" + packed[1:].replace("?", "t"), struct.Struct(packed).unpack_from)
            if [code for _, code in self.run] == ["B"]:
                self.put(f"{self.run[0][0]} = buf[p]")
            else:
                self.put(f"{', '.join(target for target, _ in self.run)}, = {reader}(buf, p)")
            self.put(f"p += {size}")
        for line in self.after_run:
            self.put(line)
        self.run, self.after_run = [], []

    def struct(self, cls: type[Struct], depth: int) -> None:
        """Read a struct into a new object o<depth>; may leave a run open."""
        here = f"o{depth}"
        kind = self.bind("C_" + cls.__name__, cls)
        self.put(f"{here} = new({kind})")
        specs = field_specs(cls)
        for f in specs:
            if not _in_body(f, self.version):
                self.default(f, f"{here}.{f.name}", depth)
        for f in specs:
            if _in_body(f, self.version):
                self.value(f, f"{here}.{f.name}", depth)
        if self.flexible:
            self.tags([f for f in specs if self.version in f.on.versions and self.version in f.on.tagged], here, depth)

    def default(self, f: FieldSpec, target: str, depth: int) -> None:
        """Set a field that is absent to its default."""
        if f.default_factory is list:
            self.put(f"{target} = []")
        elif f.struct is not None and f.default_factory is not None:
            inner = f"d{depth}"
            self.put(f"{target} = {inner} = new({self.bind('C_' + f.struct.__name__, f.struct)})")
            for sub in field_specs(f.struct):
                self.default(sub, f"{inner}.{sub.name}", depth + 100)
        else:
            value = "ZERO_UUID" if f.kind == "uuid" else repr(f.default)
            self.put(f"{target} = {value}")

    def tags(self, known: list[FieldSpec], here: str, depth: int) -> None:
        self.run.append((f"n{depth}", "B"))
        if not known:
            self.flush_then(f"if n{depth}: p = skip_tags(buf, p, e, n{depth})")
            return
        self.flush()
        self.put(f"if n{depth}:")
        self.indent += 1
        self.put(f"if n{depth} > 127: n{depth}, p = uv(buf, p, n{depth})")
        self.put(f"for _ in range(n{depth}):")
        self.indent += 1
        self.put(f"tag, p, n = tag_head(buf, p, e); end{depth} = p + n")
        word = "if"
        for f in known:
            self.put(f"{word} tag == {f.on.tag}:")
            word = "elif"
            self.indent += 1
            self.value(f, f"{here}.{f.name}", depth)
            self.flush()
            self.put(f"if p != end{depth}: misfit({f.name!r})")
            self.indent -= 1
        self.put(f"else: p = end{depth}")
        self.indent -= 2

    def flush_then(self, line: str) -> None:
        self.flush()
        self.put(line)

    def value(self, f: FieldSpec, target: str, depth: int) -> None:
        """Read one field."""
        flexible = self.flexible and f.on.flexible
        nullable = self.version in f.on.nullable
        if f.kind == "uuid":
            self.run.append((f"u{len(self.run)}_{depth}", "16s"))
            self.after_run.append(f"{target} = Uuid(u{len(self.run) - 1}_{depth})")
        elif f.kind in FORMATS:
            self.run.append((target, FORMATS[f.kind]))
        elif f.kind == "struct":
            self.nested(f, target, depth, nullable)
        else:
            self.length(f, flexible, nullable, target, depth)

    def nested(self, f: FieldSpec, target: str, depth: int, nullable: bool) -> None:
        assert f.struct is not None
        if nullable:
            self.run.append(("n", "b"))
            self.flush()
            self.put(f"if n <{'=' if self.version in f.on.tagged else ''} 0: {target} = None")
            self.put("else:")
            self.indent += 1
        else:
            self.flush()
        self.struct(f.struct, depth + 1)
        self.flush()
        self.put(f"{target} = o{depth + 1}")
        self.indent -= int(nullable)

    def length(self, f: FieldSpec, flexible: bool, nullable: bool, target: str, depth: int) -> None:
        """Read what begins with its length: strings, bytes, records, arrays."""
        count = f"n{depth}" if f.kind == "array" else "n"
        self.run.append((count, "B" if flexible else "h" if f.kind == "string" else "i"))
        self.flush()
        if flexible:
            self.put(f"if {count} > 127: {count}, p = uv(buf, p, {count})")
            self.put(f"{count} -= 1")
        is_null = f"{target} = None" if nullable else f"null({f.name!r})"
        self.put(f"if {count} < 0: {is_null}")
        self.put("else:")
        self.indent += 1
        if f.kind == "array":
            self.array(f, target, count, depth)
        else:
            self.blob(f, target)
        self.indent -= 1

    def blob(self, f: FieldSpec, target: str) -> None:
        self.put("q = p + n")
        self.put("if q > e: short()")
        if f.kind == "string":
            self.put(f"if n > {MAX_STRING_BYTES}: too_long({f.name!r})")
            self.put(f'{target} = str(buf[p:q], "utf-8", "replace")')
        elif f.kind == "bytes":
            self.put(f"{target} = bytes(buf[p:q])")
        else:
            self.put(f"{target} = buf[p:q]")
        self.put("p = q")

    def array(self, f: FieldSpec, target: str, count: str, depth: int) -> None:
        if f.element in FORMATS and f.element != "uuid":
            width = _WIDTH[f.element]
            reader = self.bind(f"A_{f.element}", ArrayFormats(FORMATS[f.element], "unpack_from"))
            self.put(f"if {count} * {width} > e - p: short()")
            self.put(f"{target} = list({reader}[{count}](buf, p))")
            self.put(f"p += {count} * {width}")
            return
        flexible = self.flexible
        if f.struct is not None:
            least = minimum_size(f.struct, self.version, flexible)
        else:
            least = 16 if f.element == "uuid" else 1 if flexible else 2
        items = f"x{depth}"
        self.put(f"if {count} * {least} > e - p: short()")
        self.put(f"{target} = {items} = []")
        self.put(f"for _ in range({count}):")
        self.indent += 1
        if f.struct is not None:
            self.struct(f.struct, depth + 1)
            self.flush()
            self.put(f"{items}.append(o{depth + 1})")
        else:
            item = FieldSpec("v", f.element, f.on)
            self.element(item, depth, flexible)
            self.put(f"{items}.append(v)")
        self.indent -= 1

    def element(self, item: FieldSpec, depth: int, flexible: bool) -> None:
        """Read an array's string, bytes or id into `v`; never null."""
        if item.kind == "uuid":
            self.value(item, "v", depth + 1)
            self.flush()
        else:
            self.length(item, flexible, False, "v", depth + 1)
