"""Regular expressions as Java reads them, for rules that were written for it.

What Python reads differently is rewritten: `.` and `$` know all of Unicode's line ends, word characters, digits and
spaces are ASCII, `{` begins a count, named groups are `(?<name>...)`, `\\p{Alpha}` is ASCII, `\\Q` quotes.
What Java has and Python lacks is refused (`JavaPatternError`): classes in classes, `&&`, Unicode's properties, flags
other than `(?i)` at the start.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_ANY_CASE: Final = "(?i)"
_NO_LINE_END: Final = rf"[^{_LINE_ENDS}]"
# In groups, so that they may be counted.
_AT_START: Final = "(?:^)"
_AT_END: Final = r"(?:(?=(?:\r\n|[\r\x85\u2028\u2029]|(?<!\r)\n)?\Z))"
_NEVER: Final = "(?:(?!))"
_POSIX: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": r"\x20-~", "Blank": r"\x20\t", "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F", "Space": r"\x20\t\n\x0b\f\r",
}  # fmt: skip
_SETS: Final = {"d": "0-9", "w": "a-zA-Z_0-9", "s": _POSIX["Space"]}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_ANCHORS: Final = {"b": r"(?:\b)", "B": r"(?:\B)", "A": r"(?:\A)", "z": r"(?:\Z)", "Z": _AT_END}
_MARKS: Final = {".": _NO_LINE_END, "$": _AT_END, "^": _AT_START, **{char: char for char in "*+?|)"}}
_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_GROUP: Final = re.compile(r"\?(?::|=|!|>|<=|<!|<([a-zA-Z][a-zA-Z0-9]*)>)")
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]{1,6})\}")
_NAMED: Final = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY: Final = re.compile(r"([pP])\{([a-zA-Z]+)\}")


class JavaPatternError(ValueError):
    """A pattern or a replacement is wrong, or is one that cannot be followed here."""


def compile_java(pattern: str) -> re.Pattern[str]:
    """Give the pattern that finds what Java's would; JavaPatternError when there is none."""
    try:
        return re.compile(_Translation(pattern).run(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as e:
        raise JavaPatternError(f"{pattern!r} is no regular expression: {e}") from None


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups = 0

    def run(self) -> str:
        parts = []
        if self._pattern.startswith(_ANY_CASE):
            parts.append(_ANY_CASE)
            self._at = len(_ANY_CASE)
        while self._at < len(self._pattern):
            parts.append(self._one())
        return "".join(parts)

    def _one(self) -> str:
        char = self._next()
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        if char == "{":
            return self._count()
        return _MARKS.get(char) or re.escape(char)

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise JavaPatternError(f"{self._pattern!r} ends too soon")
        self._at += 1
        return self._pattern[self._at - 1]

    def _take(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        match = wanted.match(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _group(self) -> str:
        if not self._pattern.startswith("?", self._at):
            self._groups += 1
            return "("
        match = self._take(_GROUP)
        if match is None:
            raise self._not_followed(self._pattern[self._at : self._at + 3])
        self._groups += match[1] is not None
        return f"(?P<{match[1]}>" if match[1] else "(" + match[0]

    def _count(self) -> str:
        self._at -= 1
        match = self._take(_COUNT)
        if match is None:
            raise JavaPatternError(f"{self._pattern!r}: a {{ that begins no count is written \\{{")
        return match[0]

    def _escape(self) -> str:
        if self._pattern.startswith("Q", self._at):
            return re.escape(self._quoted())
        match = self._take(_NAMED)
        if match is not None:
            return f"(?P={match[1]})"
        found = self._set()
        if found is not None:
            return f"[{found}]"
        char = self._next()
        if char in _ANCHORS:
            return _ANCHORS[char]
        if char in "123456789":
            if self._pattern[self._at : self._at + 1].isdigit():
                raise self._not_followed(f"\\{char} before a digit")
            return f"(?:\\{char})" if int(char) <= self._groups else _NEVER
        self._at -= 1
        return re.escape(self._literal())

    def _quoted(self) -> str:
        end = self._pattern.find("\\E", self._at)
        text = self._pattern[self._at + 1 : len(self._pattern) if end < 0 else end]
        self._at = len(self._pattern) if end < 0 else end + 2
        return text

    def _set(self) -> str | None:
        """Give what stands between brackets for \\d, \\p{Alpha} and so on; None when none of them follows."""
        match = self._take(_PROPERTY)
        if match is not None:
            if match[2] not in _POSIX:
                raise self._not_followed(f"\\{match[0]}")
            return _POSIX[match[2]] if match[1] == "p" else _complement(_POSIX[match[2]])
        char = self._pattern[self._at : self._at + 1]
        if not char or char.lower() not in _SETS:
            return None
        self._at += 1
        return _SETS[char] if char in _SETS else _complement(_SETS[char.lower()])

    def _literal(self) -> str:
        """Give the character that an escape stands for."""
        match = self._take(_CODE)
        if match is not None:
            code = int(match[1] or match[2] or match[3], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise self._not_followed(f"\\{match[0]}")
            return chr(code)
        char = self._next()
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isascii() and char.isalnum():
            raise self._not_followed(f"\\{char}")
        return char

    def _class(self) -> str:
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        items: list[str] = []
        while True:
            char = self._next()
            if char == "]" and items:
                return f"[{'^' if negated else ''}{''.join(items)}]"
            items.append(self._class_item(char))

    def _class_item(self, char: str) -> str:
        if char == "[" or self._pattern.startswith("&&", self._at - 1):
            raise self._not_followed("a class within a class")
        if char == "\\":
            if self._pattern.startswith("Q", self._at):
                raise self._not_followed("\\Q within a class")
            found = self._set()
            if found is not None:
                if self._pattern.startswith("-", self._at):
                    raise self._not_followed("a range from a set")
                return found
            char = self._literal()
        if self._pattern.startswith("-", self._at) and self._pattern[self._at + 1 : self._at + 2] not in ("]", "[", ""):
            return f"{_in_class(char)}-{self._range_end()}"
        return _in_class(char)

    def _range_end(self) -> str:
        self._at += 1
        end = self._next()
        if end == "\\":
            if self._pattern.startswith("Q", self._at) or self._set() is not None:
                raise self._not_followed("a range to a set")
            end = self._literal()
        elif self._pattern.startswith("&&", self._at - 1):
            raise self._not_followed("&&")
        return _in_class(end)

    def _not_followed(self, what: str) -> JavaPatternError:
        return JavaPatternError(f"{self._pattern!r}: {what} is not followed here")


def _complement(ranges: str) -> str:
    """Give the ranges of all characters that are in none of these."""
    inside = re.compile(f"[{ranges}]")
    outside = [chr(code) for code in range(128) if not inside.match(chr(code))]
    beyond = "" if inside.match("\x80") else "\x80-\U0010ffff"
    return "".join(map(_in_class, outside)) + beyond


def _in_class(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|\$(?P<number>[0-9]+)", re.DOTALL)


def replace_java(pattern: re.Pattern[str], text: str, replacement: str, *, repeat: bool, check: bool = False) -> str:
    """Give `text` with the first match replaced, or all of them, as Java's replaceFirst and replaceAll do.

    `$1` and `${name}` stand for groups, a backslash for the character after it. JavaPatternError when the replacement
    is malformed; that is seen only where there is a match, unless check.
    """
    parts = _Replacement(pattern, replacement, lazy=not check)
    found: list[str] = []
    done = at = 0
    # Not Python's sub: at the place of an empty match Java does not look for a longer one.
    while at <= len(text) and (match := pattern.search(text, at)) is not None:
        found += (text[done : match.start()], parts.expand(match))
        done = match.end()
        at = done if done > match.start() else done + 1
        if not repeat:
            break
    return "".join(found) + text[done:]


class _Replacement:
    def __init__(self, pattern: re.Pattern[str], text: str, *, lazy: bool) -> None:
        self._groups = pattern.groups
        self._names = pattern.groupindex
        self._text = text
        self._parts: list[str | int] | None = None if lazy else self._parse()

    def expand(self, match: re.Match[str]) -> str:
        if self._parts is None:
            self._parts = self._parse()
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self._parts)

    def _parse(self) -> list[str | int]:
        found: list[str | int] = []
        at = 0
        while at < len(self._text):
            match = _REFERENCE.match(self._text, at)
            if match is not None:
                found += self._reference(match)
                at = match.end()
            elif self._text[at] in "\\$":
                raise JavaPatternError(f"{self._text!r}: {self._text[at:]!r} stands for no group and no character")
            else:
                found.append(self._text[at])
                at += 1
        return found

    def _reference(self, match: re.Match[str]) -> list[str | int]:
        if match["literal"] is not None:
            return [match["literal"]]
        if match["name"] is not None:
            if match["name"] not in self._names:
                raise JavaPatternError(f"{self._text!r}: there is no group {match['name']}")
            return [self._names[match["name"]]]
        # One digit, and as many more as still name a group; what is left over is text.
        digits, size = match["number"], 1
        while size < len(digits) and int(digits[: size + 1]) <= self._groups:
            size += 1
        if int(digits[:size]) > self._groups:
            raise JavaPatternError(f"{self._text!r}: there is no group {digits[:size]}, only {self._groups} of them")
        return [int(digits[:size]), digits[size:]]
