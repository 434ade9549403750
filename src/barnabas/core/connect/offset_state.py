"""What the offsets topic says: how far each partition of each source has been read, in the source's own words.

A key is `["connector", {partition}]`. The JVM's workers look an offset up by the bytes of its key, and a map of several
items may have been written in another order: all spellings of a partition are known here, the last one written counts,
and a reset ends each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from immutables import Map

from barnabas.core.connect.json_converter import Json, decode_json, encode_json
from barnabas.core.connect.records import Record


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A partition of a source and how far it has been read."""

    partition: Mapping[str, Json]
    offset: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class _Spelling:
    key: bytes
    known: SourceOffset


@dataclass(frozen=True, slots=True)
class OffsetState:
    """The offsets of all sources; `EMPTY_OFFSETS` is where reading begins."""

    by_connector: Map[str, Map[bytes, tuple[_Spelling, ...]]] = field(default_factory=Map)

    def offsets(self, connector: str) -> list[SourceOffset]:
        """Give all of a connector's partitions with their offsets."""
        partitions = self.by_connector.get(connector, Map())
        return [spellings[-1].known for _, spellings in sorted(partitions.items())]

    def offset(self, connector: str, partition: Mapping[str, Json]) -> Mapping[str, Json] | None:
        """Give how far a partition has been read, None where nothing is known."""
        spellings = self.by_connector.get(connector, Map()).get(_canonical(partition))
        return spellings[-1].known.offset if spellings else None


EMPTY_OFFSETS = OffsetState()


class Replayed(NamedTuple):
    """The state after a record. complaint: why the record changed nothing, for the log; None when all is well."""

    state: OffsetState
    complaint: str | None = None


def offset_record(connector: str, partition: Mapping[str, Json], offset: Mapping[str, Json]) -> Record:
    """Give the record that says how far a partition has been read."""
    return Record(_key(connector, partition), encode_json(dict(offset)))


def reset_records(state: OffsetState, connector: str, partition: Mapping[str, Json]) -> list[Record]:
    """Give the records after which nothing is known of a partition, in whatever order its key was written."""
    spellings = state.by_connector.get(connector, Map()).get(_canonical(partition), ())
    return [Record(key, None) for key in dict.fromkeys([s.key for s in spellings] + [_key(connector, partition)])]


def replay_offset(state: OffsetState, key: bytes | None, value: bytes | None) -> Replayed:
    """Give the state after a record of the offsets topic. A value that is JSON's null ends the offset as well."""
    try:
        named = decode_json(key or b"")
        offset = None if value is None else decode_json(value)
    except ValueError:
        return Replayed(state, f"the offsets topic has a record {key!r} that is no JSON")
    match named:
        case [str() as connector, dict() as partition] if isinstance(offset, dict | None):
            return Replayed(_replayed(state, connector, partition, key or b"", offset))
        case [str(), None]:
            return Replayed(state)  # a source without partitions keeps no offset either
    return Replayed(state, f"the offsets topic has a record {key!r} that names no connector and partition")


def _replayed(
    state: OffsetState, connector: str, partition: dict[str, Json], key: bytes, offset: dict[str, Json] | None
) -> OffsetState:
    name = _canonical(partition)
    partitions = state.by_connector.get(connector, Map())
    spellings = tuple(s for s in partitions.get(name, ()) if s.key != key)
    if offset is not None:
        spellings += (_Spelling(key, SourceOffset(partition, offset)),)
    if spellings:
        partitions = partitions.set(name, spellings)
    elif name in partitions:
        partitions = partitions.delete(name)
    return replace(state, by_connector=state.by_connector.set(connector, partitions))


def _key(connector: str, partition: Mapping[str, Json]) -> bytes:
    return encode_json([connector, dict(partition)])


def _canonical(partition: Mapping[str, Json]) -> bytes:
    return encode_json({name: partition[name] for name in sorted(partition)})
