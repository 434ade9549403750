"""Makes directories ready for a node, laid out exactly as kafka-storage does it (KIP-853, KIP-1022).

Used by `barnabas storage format`, by the development node and by the pytest plugin. In each directory:
`meta.properties`, `bootstrap.checkpoint`; in the metadata directory of a dynamic quorum also
`__cluster_metadata-0/00000000000000000000-0000000000.checkpoint` with the first voters.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from barnabas.core.replicated import VersionedRecord
from barnabas.model.features import (
    FEATURE_BY_NAME,
    FEATURES,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    MetadataVersion,
    missing_dependency,
)
from barnabas.model.uuid import RESERVED_UUIDS, Uuid
from barnabas.server.config import NodeConfig
from barnabas.server.scram_arguments import parse_scram_argument
from barnabas.storage.fs import FileSystem, OsFileSystem
from barnabas.storage.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.wire.metadata_records import encode_metadata_record
from barnabas.wire.records.feature_level_record import FeatureLevelRecord

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
METADATA_DIR: Final = "__cluster_metadata-0"
FIRST_SNAPSHOT: Final = "00000000000000000000-0000000000.checkpoint"


class FormatError(Exception):
    """The directories cannot be formatted as asked; says why."""


@dataclass(frozen=True, slots=True)
class FormatRequest:
    """What the directories are for.

    log_dirs: all of them, the metadata directory included; metadata_dir: the one with the metadata log. voters: the
    first voters of a dynamic quorum, None for a static one (`controller.quorum.voters`) or a node that joins later.
    dynamic: no static voters are configured. features: levels asked for, over the defaults of `release`. scram:
    arguments as `--add-scram` takes them.
    """

    cluster_id: str
    node_id: int
    log_dirs: Sequence[Path]
    metadata_dir: Path
    voters: VoterSet | None = None
    dynamic: bool = True
    release: MetadataVersion | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    scram: Sequence[str] = ()
    ignore_formatted: bool = False
    unstable: bool = False


def random_uuid() -> Uuid:
    """Give a fresh random id (version 4), none of the reserved ones, that does not begin with a dash.

    A leading dash would look like an option on a command line.
    """
    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = Uuid(raw)
        if uuid not in RESERVED_UUIDS and not str(uuid).startswith("-"):
            return uuid


def format_directories(
    request: FormatRequest, report: Callable[[str], None] = lambda line: None, fs: FileSystem | None = None
) -> None:
    """Format those directories that are not yet; FormatError, and nothing written, when the request has a fault.

    report: gets a line on each step, for people.
    """
    fs = fs or OsFileSystem()
    if request.node_id < 0:
        raise FormatError(f"the node id is {request.node_id}: want 0 or more")
    if request.metadata_dir not in request.log_dirs:
        raise FormatError(f"the metadata directory {request.metadata_dir} is not among the log directories")
    release = effective_release(request)
    levels = effective_levels(request, release)
    records = [*bootstrap_features(levels), *_scram_records(request, release)]
    formatted, empty = _examine(request, fs)
    if formatted and not request.ignore_formatted:
        raise FormatError(
            f"{formatted[0]} is already formatted; --ignore-formatted leaves it as it is and formats the others"
        )
    if not empty:
        report("Nothing to do: every log directory is already formatted.")
        return
    for directory in empty:
        report(f"Formatting {_kind(request, directory)} {directory} with {METADATA_VERSION} {release}.")
        _format_one(request, directory, levels[KRAFT_VERSION], records, fs)


def effective_release(request: FormatRequest) -> MetadataVersion:
    """Give the metadata.version to begin with; FormatError when two were asked for, or an unstable one."""
    asked = request.features.get(METADATA_VERSION)
    if asked is not None and request.release is not None:
        raise FormatError(f"--release-version and --feature {METADATA_VERSION}=... say the same thing: use one of them")
    if asked is not None:
        try:
            release = MetadataVersion(asked)
        except ValueError:
            raise FormatError(f"{METADATA_VERSION} has no level {asked}") from None
    else:
        release = request.release or LATEST_METADATA_VERSION
    if release > LATEST_METADATA_VERSION and not request.unstable:
        raise FormatError(f"{METADATA_VERSION} {release} is not yet stable; {LATEST_METADATA_VERSION} is")
    return release


def effective_levels(request: FormatRequest, release: MetadataVersion) -> dict[str, int]:
    """Give every feature's level: as asked, else Kafka's default for the release where this node can run that.

    FormatError for a feature or level that this node does not know, or one that lacks what it depends on.
    """
    unknown = [n for n in request.features if n != METADATA_VERSION and n not in FEATURE_BY_NAME]
    if unknown:
        raise FormatError(
            f"Unsupported feature: {unknown[0]}. Supported features are: {', '.join(sorted(FEATURE_BY_NAME))}"
        )
    levels = {METADATA_VERSION: int(release)}
    for feature in FEATURES:
        asked = request.features.get(feature.name)
        if feature.name == KRAFT_VERSION:
            levels[feature.name] = _kraft_version(request, asked)
        elif asked is None:
            levels[feature.name] = min(feature.default_level(release), feature.supported_max)
        else:
            levels[feature.name] = asked
    for name, level in levels.items():
        if name != METADATA_VERSION:
            _check_level(name, level, levels)
    return levels


def standalone_voters(config: NodeConfig) -> VoterSet:
    """Give the voter set of which this controller is the only member, with a fresh directory id."""
    names = config.controller_listener_names
    endpoint = next(e for e in (*config.advertised, *config.listeners) if e.listener_name in names)
    host = endpoint.host or "localhost"
    key = ReplicaKey(config.node_id, random_uuid())
    return VoterSet.of([Voter(key, ((names[0], Endpoint(host, endpoint.port)),))])


def bootstrap_features(levels: Mapping[str, int]) -> list[VersionedRecord]:
    """Give the records that finalise these levels: metadata.version first, kraft.version never, level 0 never."""
    names = [METADATA_VERSION, *sorted(n for n in levels if n not in (METADATA_VERSION, KRAFT_VERSION))]
    return [
        VersionedRecord(FeatureLevelRecord(name=name, feature_level=levels[name]), 0)
        for name in names
        if levels[name] > 0
    ]


def _kraft_version(request: FormatRequest, asked: int | None) -> int:
    if asked is None:
        return 1 if request.dynamic else 0
    if asked == 0 and request.dynamic:
        raise FormatError(
            f"{KRAFT_VERSION}=0 is for a quorum of fixed voters, and --standalone, --initial-controllers and "
            "--no-initial-controllers are for one whose voters may change"
        )
    if asked > 0 and not request.dynamic:
        raise FormatError(
            f"{KRAFT_VERSION}={asked} is for a quorum whose voters may change: leave controller.quorum.voters out and "
            "give --standalone, --initial-controllers or --no-initial-controllers"
        )
    return asked


def _check_level(name: str, level: int, levels: Mapping[str, int]) -> None:
    try:
        FEATURE_BY_NAME[name].at(level)
    except ValueError as e:
        raise FormatError(str(e)) from None
    highest = SUPPORTED_FEATURES[name][1]
    if level > highest:
        raise FormatError(f"{name}={level} is Kafka's, but a Barnabas node runs {name} up to {highest} only.")
    missing = missing_dependency(name, level, levels)
    if missing is not None:
        raise FormatError(missing)


def _scram_records(request: FormatRequest, release: MetadataVersion) -> list[VersionedRecord]:
    if request.scram and release < MetadataVersion.IBP_3_5_IV2:
        raise FormatError(
            f"{METADATA_VERSION} {release} cannot hold SCRAM users; want {MetadataVersion.IBP_3_5_IV2} or more"
        )
    try:
        return [parse_scram_argument(argument) for argument in request.scram]
    except ValueError as e:
        raise FormatError(str(e)) from None


def _examine(request: FormatRequest, fs: FileSystem) -> tuple[list[Path], list[Path]]:
    """Give the directories that are formatted, and those that are not; FormatError when one belongs elsewhere."""
    formatted: list[Path] = []
    empty: list[Path] = []
    for directory in sorted(set(request.log_dirs)):
        try:
            found = read_meta_properties(directory, fs)
        except MetaPropertiesError as e:
            raise FormatError(str(e)) from None
        if found is None:
            empty.append(directory)
            continue
        if found.cluster_id != request.cluster_id:
            raise FormatError(
                f"{directory / 'meta.properties'} belongs to cluster {found.cluster_id}, not to {request.cluster_id}"
            )
        if found.node_id != request.node_id:
            raise FormatError(
                f"Stored node id {found.node_id} in {directory / 'meta.properties'} is not this node's, "
                f"{request.node_id}: give the node its old id, or a directory of its own"
            )
        formatted.append(directory)
    return formatted, empty


def _kind(request: FormatRequest, directory: Path) -> str:
    if directory != request.metadata_dir:
        return "data directory"
    if request.voters is None:
        return "metadata directory"
    if request.voters.get(request.node_id) is None:
        return "dynamic metadata directory"
    return "dynamic metadata voter directory"


def _format_one(
    request: FormatRequest, directory: Path, kraft_version: int, records: Sequence[VersionedRecord], fs: FileSystem
) -> None:
    now_ms = time.time_ns() // 1_000_000
    values = [encode_metadata_record(r.record, r.version) for r in records]
    directory_id = random_uuid()
    fs.make_dirs(directory)
    bootstrap = b"".join(snapshot_batches(values, epoch=0, last_timestamp_ms=0, now_ms=now_ms))
    fs.write_durably(directory / BOOTSTRAP_FILE, bootstrap)
    if directory == request.metadata_dir and request.voters is not None:
        mine = request.voters.get(request.node_id)
        directory_id = directory_id if mine is None else mine.key.directory_id
        fs.make_dirs(directory / METADATA_DIR)
        first = snapshot_batches(
            (), epoch=0, last_timestamp_ms=now_ms, now_ms=now_ms, kraft_version=kraft_version, voters=request.voters
        )
        fs.write_durably(directory / METADATA_DIR / FIRST_SNAPSHOT, b"".join(first))
    # Last, for it says that the directory is formatted: a crash before leaves one that can be formatted again.
    write_meta_properties(directory, MetaProperties(request.cluster_id, request.node_id, directory_id), fs)
