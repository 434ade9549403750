"""Paths and globs in the tree of the metadata shell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.core.metadata.tree import Tree

_SPECIAL: Final = frozenset("*?{")


class Found(NamedTuple):
    """A node and where it is."""

    path: tuple[str, ...]
    node: Tree

    @property
    def absolute(self) -> str:
        """Give the path from the root on."""
        return "/" + "/".join(self.path)

    @property
    def name(self) -> str:
        """Give the last part of the path."""
        return self.path[-1] if self.path else "/"


def parts(path: str, cwd: str = "/") -> list[str]:
    """Give the parts of a path from the root on, `.` and `..` resolved."""
    out: list[str] = []
    for part in f"{'' if path.startswith('/') else cwd}/{path}".split("/"):
        if part == "..":
            del out[-1:]
        elif part not in ("", "."):
            out.append(part)
    return out


def glob(root: Tree, pattern: str, cwd: str = "/") -> list[Found]:
    """Give the nodes that a pattern names: `*`, `?` and `{a,b}` stand for parts of a name."""
    return list(_walk(Found((), root), parts(pattern, cwd)))


def complete(root: Tree, prefix: str, cwd: str = "/") -> list[str]:
    """Give what `prefix` may be the begin of; directories end with a slash."""
    head, slash, last = prefix.rpartition("/")
    found = glob(root, _quoted(head + slash) or ".", cwd)
    if not found or not isinstance(found[0].node, Mapping):
        return []
    node = found[0].node
    return [
        f"{head}{slash}{name}{'/' if isinstance(node[name], Mapping) else ''}"
        for name in sorted(node)
        if name.startswith(last)
    ]


def _walk(at: Found, names: list[str]) -> Iterator[Found]:
    if not names:
        yield at
        return
    if not isinstance(at.node, Mapping):
        return
    first, rest = names[0], names[1:]
    matches = [first] if first in at.node else _matching(at.node, first)
    for name in matches:
        yield from _walk(Found((*at.path, name), at.node[name]), rest)


def _matching(directory: Mapping[str, Tree], pattern: str) -> list[str]:
    if not _SPECIAL.intersection(pattern):
        return []
    try:
        compiled = re.compile(_expression(pattern), re.DOTALL)
    except re.error:
        return []
    return [name for name in sorted(directory) if compiled.fullmatch(name)]


def _expression(pattern: str) -> str:
    """Give the regular expression of a glob."""
    out, depth, i = "", 0, 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        elif c in "?*":
            out += "." if c == "?" else ".*"
        elif c == "{":
            depth += 1
            out += "(?:"
        elif c == "," and depth:
            out += "|"
        elif c == "}" and depth:
            depth -= 1
            out += ")"
        else:
            out += re.escape(c)
        i += 1
    return out


def _quoted(path: str) -> str:
    return re.sub(r"([*?{\\])", r"\\\1", path) if _SPECIAL.intersection(path) else path
