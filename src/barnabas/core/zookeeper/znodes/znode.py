"""One znode as it was read, its JSON, and the names that may stand in its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_plus

DEFAULT_ENTITY: Final = "<default>"
"""The name of the znode that holds for all entities of a kind without configs of their own."""


class Znode(NamedTuple):
    """A znode as it was read. version: how often its data was set; created: the id of the transaction that made it."""

    path: str
    data: bytes
    version: int = 0
    created: int = 0

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


class ZnodeError(ValueError):
    """A znode holds what no version of Kafka writes there; names the path and what is wrong."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"znode {path}: {what}")
        self.path = path


def json_of(value: Mapping[str, object]) -> bytes:
    """Give the bytes of a JSON object, as Kafka writes it: UTF-8, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class Fields:
    """The JSON object that a znode holds; ZnodeError where it is none, or a field is missing or of another type."""

    def __init__(self, znode: Znode) -> None:
        self._path = znode.path
        try:
            found = json.loads(znode.data)
        except ValueError as e:
            raise ZnodeError(znode.path, f"not JSON: {e}") from None
        if not isinstance(found, dict):
            raise ZnodeError(znode.path, "not a JSON object")
        self.all: dict[str, Any] = found

    def version(self, newest: int) -> int:
        """Give the version of the format; ZnodeError unless it is from 1 to `newest`."""
        found = int(self.whole("version"))
        if not 1 <= found <= newest:
            raise ZnodeError(self._path, f"written in version {found}, and we know those from 1 to {newest}")
        return found

    def text(self, key: str) -> str:
        """Give a string."""
        return str(self._of(key, str))

    def whole(self, key: str) -> int:
        """Give a whole number, which may be spelled as a string."""
        value = self.all.get(key)
        try:
            if isinstance(value, str | int) and not isinstance(value, bool):
                return int(value)
        except ValueError:
            pass
        raise ZnodeError(self._path, f"'{key}' should be a whole number, and is {value!r}")

    def wholes(self, key: str) -> tuple[int, ...]:
        """Give a list of whole numbers."""
        return self.listed(self._of(key, list), key)

    def texts(self, key: str) -> list[str]:
        """Give a list of strings."""
        found: list[Any] = self._of(key, list)
        if not all(isinstance(item, str) for item in found):
            raise ZnodeError(self._path, f"'{key}' should be a list of strings")
        return found

    def objects(self, key: str) -> list[dict[str, Any]]:
        """Give a list of JSON objects."""
        found: list[Any] = self._of(key, list)
        if not all(isinstance(item, dict) for item in found):
            raise ZnodeError(self._path, f"'{key}' should be a list of objects")
        return found

    def mapping(self, key: str) -> dict[str, Any]:
        """Give a JSON object; empty when the key is missing."""
        return dict(self._of(key, dict)) if key in self.all else {}

    def listed(self, value: object, key: str) -> tuple[int, ...]:
        """Take a value for a list of whole numbers."""
        if isinstance(value, list) and all(type(item) is int for item in value):
            return tuple(value)
        raise ZnodeError(self._path, f"'{key}' should hold lists of whole numbers")

    def _of(self, key: str, kind: type) -> Any:
        value = self.all.get(key)
        if not isinstance(value, kind):
            raise ZnodeError(self._path, f"'{key}' is missing or not a {kind.__name__}")
        return value


def sanitized(name: str) -> str:
    """Give a name as it stands in a path: all but letters, digits, `.`, `-` and `_` is percent-encoded."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(text: str) -> str:
    """Give the name that was sanitized."""
    return unquote_plus(text)


def entity(name: str | None) -> str:
    """Give the part of a path for an entity that has a name, or for the default of all."""
    return DEFAULT_ENTITY if name is None else sanitized(name)


def entity_name(part: str) -> str | None:
    """Give the name of the entity that a part of a path stands for; None for the default of all."""
    return None if part == DEFAULT_ENTITY else desanitized(part)
