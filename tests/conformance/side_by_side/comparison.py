"""Two nodes' outcomes, field by field: what may differ is taken away, and the rest must be the same."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import Message
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, check_crc, decode_batch, read_header

from .side import Outcome, Side

TEXTS: Final = frozenset({"error_message", "batch_index_error_message"})
"""Free text, for people: where Kafka explains an error, so must we; how is our own affair."""
NAMES: Final = frozenset({"member_id", "leader", "producer_id", "preferred_read_replica", "session_id"})
"""Ids that a node makes up: the same one must come back in the same places."""
IGNORED: Final = frozenset(
    {"throttle_time_ms", "auth_bytes", "usable_bytes", "total_bytes", "finalized_features_epoch", "documentation"}
)
"""What depends on the moment or the machine."""
RECENTLY_MS: Final = 3_600_000


@dataclass(frozen=True)
class Difference:
    """A place where the nodes disagree."""

    step: str
    path: str
    kafka: object
    barnabas: object


def told(found: Sequence[Difference]) -> str:
    """Say what differs, once for all versions and users that differ alike."""
    alike: dict[str, list[str]] = {}
    for each in found:
        text = f"{each.path}: Kafka {each.kafka!r}, Barnabas {each.barnabas!r}"
        alike.setdefault(text, []).append(each.step)
    return "\n".join(f"  {text}\n      {len(steps)} times, first in {steps[0]}" for text, steps in alike.items())


@dataclass(frozen=True)
class Known:
    """A difference that is meant. step, path: patterns; reason: why, or where that is written."""

    step: str
    path: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Say whether a difference is this one."""
        return bool(re.search(self.step, difference.step) and re.search(self.path, difference.path))


def differences(kafka: Side, barnabas: Side) -> Iterator[Difference]:
    """Give what differs between the outcomes of one script on two sides."""
    reading = (_Reader(kafka), _Reader(barnabas))
    for theirs, ours in zip(kafka.outcomes, barnabas.outcomes, strict=False):
        assert theirs.step == ours.step, (theirs.step, ours.step)
        left, right = (reader.read(outcome) for reader, outcome in zip(reading, (theirs, ours), strict=True))
        for path, a, b in _unequal("", left, right):
            yield Difference(ours.step, path, a, b)
    if len(kafka.outcomes) != len(barnabas.outcomes):
        last: Sequence[Outcome] = max(kafka.outcomes, barnabas.outcomes, key=len)
        step = last[min(len(kafka.outcomes), len(barnabas.outcomes))].step
        yield Difference(step, "(steps)", len(kafka.outcomes), len(barnabas.outcomes))


class _Reader:
    """Makes one side's answers comparable, over the length of a script."""

    def __init__(self, side: Side) -> None:
        self._places = side.places
        self._named: dict[object, str] = {}

    def read(self, outcome: Outcome) -> Any:
        if isinstance(outcome.answer, Message):
            return self._struct(outcome.answer)
        return outcome.answer

    def _struct(self, value: Any) -> dict[str, Any]:
        return {f.name: self._field(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)}

    def _field(self, name: str, value: Any) -> Any:
        if name in IGNORED:
            return None
        if name in TEXTS:
            return value and f"(text) {value[:80]}"
        if name == "records":
            return None if value is None else self._batches(value)
        if isinstance(value, list):
            return sorted((self._field("", v) for v in sorted(value, key=_named_otherwise)), key=_order)
        if dataclasses.is_dataclass(value):
            return self._struct(value)
        return self._scalar(name, value)

    def _scalar(self, name: str, value: Any) -> Any:
        if isinstance(value, Uuid):
            return str(value) if value == ZERO_UUID else self._name("uuid", value)
        if name in NAMES and value not in ("", -1, None) and (value or name == "producer_id"):
            return self._name(name, value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes | memoryview):
            return bytes(value)
        if isinstance(value, int) and abs(value - time.time() * 1000) < RECENTLY_MS:
            return "(now)"
        if name == "port":
            return self._places.get(str(value), value)
        return value

    def _text(self, value: str) -> str:
        for text, name in self._places.items():
            value = re.sub(rf"(?<!\d){re.escape(text)}(?!\d)", name, value)  # a port may be part of another number
        return value

    def _name(self, kind: str, value: object) -> str:
        return self._named.setdefault(value, f"({kind} {len(self._named)})")

    def _batches(self, records: Any) -> list[Any]:
        whole, found = 0, []
        while len(records) - whole >= BATCH_HEADER_SIZE and read_header(records, whole).size <= len(records) - whole:
            header = read_header(records, whole)
            found.append(self._batch(records, whole, header))
            whole += header.size
        return [*found, f"and {len(records) - whole} bytes"]

    def _batch(self, records: Any, at: int, header: Any) -> dict[str, Any]:
        fields = header._asdict()
        for volatile in ("crc", "batch_length"):
            fields.pop(volatile)
        for name in ("base_timestamp", "max_timestamp", "producer_id"):
            fields[name] = self._scalar(name, fields[name])
        fields["valid"] = check_crc(records, at, header)
        try:
            fields["contents"] = [
                (r.offset, self._scalar("timestamp", r.timestamp), r.key, r.value, list(r.headers))
                for r in decode_batch(records, at)
            ]
        except ProtocolError:
            fields["contents"] = "damaged"
        return dict(fields)


def _named_otherwise(value: Any) -> str:
    """Give the turn in which to read a list's elements: made-up ids get the same names in whatever order it came."""
    if not dataclasses.is_dataclass(value):
        return ""
    return ",".join(str(getattr(value, name, "")) for name in _IDENTITIES if name not in NAMES)


def _order(value: Any) -> str:
    """Give what to sort by: servers give most lists in no order, so names count first and made-up ids last."""
    if not isinstance(value, dict):
        return str(value)
    first = [f"{k}={v}" for k, v in value.items() if not isinstance(v, list | dict) and not _made_up(v)]
    return "|".join(sorted(first, key=lambda text: ("error" in text, text))) + repr(value)


def _made_up(value: Any) -> bool:
    return str(value).startswith("(")


def _unequal(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left:
            if key in TEXTS and not _lacks(left, right, key):
                continue
            yield from _unequal(f"{path}.{key}", left[key], right.get(key))
    elif isinstance(left, list) and isinstance(right, list):
        yield from _unequal_lists(path, left, right)
    elif left != right:
        yield path, left, right


def _lacks(left: dict[str, Any], right: dict[str, Any], key: str) -> bool:
    """Say whether a client of ours misses an explanation that Kafka gives; giving more of them is no fault."""
    return bool(left[key] and not right[key] and left.get("error_code", 1))


def _unequal_lists(path: str, left: list[Any], right: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Pair elements by what names them, so that one that is missing does not make all others differ."""
    theirs, ours = _by_identity(left), _by_identity(right)
    for key in [*theirs, *(k for k in ours if k not in theirs)]:
        if key in theirs and key in ours:
            yield from _unequal(f"{path}[{key}]", theirs[key], ours[key])
        else:
            yield f"{path}[{key}]", theirs.get(key, "(absent)"), ours.get(key, "(absent)")


_IDENTITIES: Final = (
    "name", "topic_name", "topic", "resource_name", "config_name", "api_key", "partition_index", "partition",
    "group_id", "group", "key", "user", "feature", "broker_id", "node_id", "index", "member_id", "entity_type",
    "principal", "operation", "mechanism", "partition_id", "permission_type", "source", "log_dir",
)  # fmt: skip


def _by_identity(elements: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for element in elements:
        key = _identity(element)
        times = sum(1 for known in found if known == key or known.startswith(key + "#"))
        found[key if not times else f"{key}#{times}"] = element
    return found


def _identity(value: Any) -> str:
    if not isinstance(value, dict):
        return "" if isinstance(value, list | tuple) else f"{value}"
    return ",".join(f"{value[k]}" for k in _IDENTITIES if _names(value.get(k)))


def _names(value: Any) -> bool:
    return value not in (None, "") and not isinstance(value, list | dict) and not _made_up(value)
