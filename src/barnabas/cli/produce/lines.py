"""A line -> a record, as Kafka's LineMessageReader reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.cli.errors import CliError

_KNOWN: Final = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "null.marker",
    "ignore.error",
)


class LineRecord(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(slots=True)
class LineReader:
    """How lines are cut: headers, then key, then value."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False
    line_number: int = field(default=0, init=False)

    @classmethod
    def configured(cls, properties: Mapping[str, str]) -> LineReader:
        """Give the reader of these properties; CliError for one that is not known or makes no sense."""
        for unknown in (p for p in properties if p not in _KNOWN):
            raise CliError(f"--reader-property {unknown}: want one of {', '.join(_KNOWN)}.")
        texts = {k: v.encode() for k, v in properties.items()}
        on = {k for k, v in properties.items() if v.lower() == "true"}
        reader = cls(
            parse_key="parse.key" in on,
            key_separator=texts.get("key.separator", b"\t"),
            parse_headers="parse.headers" in on,
            headers_delimiter=texts.get("headers.delimiter", b"\t"),
            headers_separator=texts.get("headers.separator", b","),
            headers_key_separator=texts.get("headers.key.separator", b":"),
            null_marker=texts.get("null.marker"),
            ignore_error="ignore.error" in on,
        )
        marks = (reader.headers_delimiter, reader.headers_separator, reader.headers_key_separator)
        if len(set(marks)) != len(marks) or reader.null_marker in (reader.key_separator, *marks):
            raise CliError("headers.delimiter, headers.separator, headers.key.separator and null.marker must differ.")
        return reader

    def read(self, line: bytes) -> LineRecord:
        """Give the record; CliError when a separator is missing."""
        self.line_number += 1
        headers: list[tuple[str, bytes | None]] = []
        key: bytes | None = None
        if self.parse_headers:
            head, line = self._cut(line, self.headers_delimiter, "headers delimiter")
            if head is not None and head != self.null_marker:
                headers = [self._header(pair) for pair in head.split(self.headers_separator)]
        if self.parse_key:
            key, line = self._cut(line, self.key_separator, "key separator")
        return LineRecord(self._or_null(key), self._or_null(line), headers)

    def _cut(self, line: bytes, mark: bytes, what: str) -> tuple[bytes | None, bytes]:
        head, found, rest = line.partition(mark)
        if found:
            return head, rest
        if self.ignore_error:
            return None, line
        raise CliError(f"Line {self.line_number} has no {what}: {line.decode(errors='replace')!r}.")

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.headers_key_separator)
        if not found and not self.ignore_error:
            raise CliError(f"Line {self.line_number}: the header {pair.decode(errors='replace')!r} has no separator.")
        return name.decode(errors="replace"), self._or_null(value) if found else None

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text == self.null_marker else text
