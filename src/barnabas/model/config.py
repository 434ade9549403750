"""Tables of configuration keys: declared once, parsed, validated and documented from the same row.

Kafka's keys, defaults and checks (design D7). A bad value stops the start and names key, value and what would be
right; a key that nobody knows is reported with the nearest one that exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple


class ConfigType(IntEnum):
    """What a value is; the numbers are those of DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(StrEnum):
    """How much a key matters to an operator."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class DynamicMode(StrEnum):
    """Whether a key can change while the node runs, and for whom (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names the key, the value and what would be right."""


Validator = Callable[[Any], str | None]
"""Gives None for a good value, else what would be right, as in "want a number from 1 to 9"."""


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()
"""The default of a key that has none."""

MASKED: Final = "[hidden]"
"""What a PASSWORD prints as, everywhere."""


class Password(str):
    """A secret: the text for those who use it, `[hidden]` for those who print it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return MASKED

    def __str__(self) -> str:
        return MASKED

    def __format__(self, spec: str) -> str:
        return MASKED

    @property
    def secret(self) -> str:
        """Give the text itself."""
        return str.__str__(self)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of a table: a key, what its value is, and what it does.

    default: typed as `type` says, None for "not set", or REQUIRED. doc: a sentence for people; empty for a key that
    is Kafka's and accepted, but that nothing here acts on. internal: not listed in references.
    """

    name: str
    type: ConfigType
    default: object
    doc: str = ""
    importance: Importance = Importance.MEDIUM
    validator: Validator | None = None
    dynamic: DynamicMode = DynamicMode.READ_ONLY
    internal: bool = False

    @property
    def acted_on(self) -> bool:
        """Say whether the value changes anything here."""
        return bool(self.doc)

    def parse(self, text: str) -> object:
        """Give the typed value of `text`; ConfigError when it is not one."""
        try:
            value = _PARSERS[self.type](text)
        except ValueError:
            raise ConfigError(f"{self.name}: {self.shown(text)!r} is not {_NOUNS[self.type]}") from None
        return self.check(value)

    def check(self, value: object) -> object:
        """Give `value` back when it is allowed; ConfigError when not."""
        if self.validator is not None and value is not None:
            wanted = self.validator(value)
            if wanted is not None:
                raise ConfigError(f"{self.name}: {self.shown(self.format(value) or '')!r} is not allowed; {wanted}")
        return value

    def shown(self, text: str) -> str:
        """Give `text` as it may be printed."""
        return MASKED if self.type is ConfigType.PASSWORD else text

    def format(self, value: object) -> str | None:
        """Give the text of a typed value, as it would stand in a file; None for "not set"."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Password):
            return value.secret
        if isinstance(value, list | tuple):
            return ",".join(str(v) for v in value)
        return str(value)


class Parsed(NamedTuple):
    """values: every key of the table, defaults included; unknown: keys outside it, each with the nearest known one."""

    values: dict[str, Any]
    unknown: dict[str, str | None]


class ConfigTable:
    """Rows by name, in the order of their declaration."""

    def __init__(self, *keys: ConfigKey) -> None:
        self._keys = {key.name: key for key in keys}
        if len(self._keys) != len(keys):
            raise ValueError("a key stands twice in the table")

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def get(self, name: str) -> ConfigKey | None:
        """Give the row of `name`, or None."""
        return self._keys.get(name)

    def nearest(self, name: str) -> str | None:
        """Give the key that `name` was probably meant to be, or None."""
        found = get_close_matches(name, self._keys, n=1, cutoff=0.75)
        return found[0] if found else None

    def parse(self, properties: Mapping[str, str]) -> Parsed:
        """Give typed values for `properties` over the defaults; ConfigError for a bad or a missing required one."""
        values: dict[str, Any] = {}
        for key in self:
            text = properties.get(key.name)
            if text is not None:
                values[key.name] = key.parse(text)
            elif key.default is REQUIRED:
                raise ConfigError(f"{key.name} is not set, and has no default. {key.doc}".rstrip())
            else:
                values[key.name] = key.default
        unknown = {name: self.nearest(name) for name in properties if name not in self}
        return Parsed(values, unknown)


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _ranged(bits: int) -> Callable[[str], int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        value = int(text.strip())
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


def parse_list(text: str) -> list[str]:
    """Give the items of a comma-separated list, trimmed; an empty text is an empty list."""
    return [item.strip() for item in text.split(",")] if text.strip() else []


_PARSERS: Final[Mapping[ConfigType, Callable[[str], object]]] = {
    ConfigType.UNKNOWN: str,
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str.strip,
    ConfigType.INT: _ranged(32),
    ConfigType.SHORT: _ranged(16),
    ConfigType.LONG: _ranged(64),
    ConfigType.DOUBLE: float,
    ConfigType.LIST: parse_list,
    ConfigType.CLASS: str.strip,
    ConfigType.PASSWORD: lambda text: Password(text.strip()),
}
_NOUNS: Final[Mapping[ConfigType, str]] = {
    ConfigType.UNKNOWN: "a value",
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a text",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list separated by commas",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a secret",
}


def between(low: float, high: float) -> Validator:
    """Allow numbers from low to high, both included."""
    return lambda v: None if low <= v <= high else f"want a number from {low} to {high}"


def at_least(low: float) -> Validator:
    """Allow numbers from low up."""
    return lambda v: None if v >= low else f"want a number of at least {low}"


def either(value: float, otherwise: Validator) -> Validator:
    """Allow one special number beside what `otherwise` allows."""
    return lambda v: None if v == value else (w and f"{w}, or {value}") if (w := otherwise(v)) else None


def one_of(*allowed: str, ignore_case: bool = False) -> Validator:
    """Allow these texts only."""
    known = {a.lower() for a in allowed} if ignore_case else set(allowed)

    def check(value: Any) -> str | None:
        return None if (value.lower() if ignore_case else value) in known else f"want one of {', '.join(allowed)}"

    return check


def each_of(*allowed: str) -> Validator:
    """Allow lists whose items are all among these."""

    def check(value: Iterable[Any]) -> str | None:
        wrong = [v for v in value if v not in allowed]
        return f"{wrong[0]!r} is none of {', '.join(allowed)}" if wrong else None

    return check


def not_empty(value: Any) -> str | None:
    """Allow anything but an empty text or list."""
    return None if len(value) else "want at least one character or item"


_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)")


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        body = match.group(1)
        return chr(int(body[1:], 16)) if len(body) == 5 else _ESCAPES.get(body, body)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def parse_properties(text: str) -> dict[str, str]:
    """Give the pairs of a Java `.properties` text: comments, continued lines, `=`/`:`/blank, escapes."""
    pairs: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _SEPARATOR.search(line)
        key, value = (line[: match.start(1)], line[match.end() :]) if match else (line, "")
        pairs[_unescape(key)] = _unescape(value)
    return pairs


def format_properties(pairs: Mapping[str, str]) -> str:
    """Give a `.properties` text that `parse_properties` and Java read back as `pairs`."""

    def escape(text: str, extra: str) -> str:
        out = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        out = "".join("\\" + c if c in extra else c for c in out)
        return "\\" + out if out.startswith(" ") else out

    return "".join(f"{escape(k, ' =:#!')}={escape(v, '')}\n" for k, v in pairs.items())
