"""`barnabas doctor data`: whether the files of a data directory agree with themselves and with one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from barnabas.cli.dump_log.decoders import DECODERS
from barnabas.cli.dump_log.indexes import dump_index, dump_time_index
from barnabas.cli.dump_log.lines import Options
from barnabas.cli.dump_log.segment import mapped
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, progress, show
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import MetaPropertiesError, read_meta_properties
from barnabas.storage.producer_snapshot import CorruptSnapshotError
from barnabas.storage.producer_snapshot import decode as decode_snapshot
from barnabas.wire.errors import ProtocolError
from barnabas.wire.record_batch import check_crc, iter_headers

_CHECK_ONLY = Options(
    print_data=False,
    deep=False,
    decoder=DECODERS["text"],
    skip_record_metadata=False,
    max_bytes=None,
    verify_only=True,
    sanity_only=False,
)


class Problem(NamedTuple):
    """Something that does not fit."""

    file: Path
    what: str


class _End(NamedTuple):
    """Where a partition's log is so far: the offset that comes next, the newest leader epoch."""

    next_offset: int = 0
    epoch: int = -1


def data(
    directories: Annotated[list[Path], typer.Argument(help="Data directories: values of log.dirs.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check checksums, offsets, epochs, indexes and snapshots of data directories; nothing is changed.

    The node may run: what it writes at the end of a log while we read is not counted as damage, and neither is what it
    takes away. Exit code 1 when something is wrong.

    Examples:

      barnabas doctor data /var/lib/barnabas/data
    """
    problems: list[Problem] = []
    for directory in directories:
        if not directory.is_dir():
            raise CliError(f"{directory} is not a directory.")
        problems += _check_directory(directory)
    rows: list[dict[str, Any]] = [{"file": str(p.file), "problem": p.what} for p in problems]
    show(rows, output, empty="Everything fits.")
    if problems:
        raise CliError(f"{len(problems)} problems. A stopped node repairs torn tails and indexes when it starts.")


def _check_directory(directory: Path) -> Iterator[Problem]:
    try:
        if read_meta_properties(directory, OsFileSystem(), version=None) is None:
            yield Problem(directory / "meta.properties", "missing: the directory is not formatted")
    except MetaPropertiesError as e:
        yield Problem(directory / "meta.properties", str(e))
    partitions = sorted(p for p in directory.iterdir() if p.is_dir() and not p.name.endswith("-delete"))
    with progress("Checking partitions", len(partitions)) as steps:
        for partition in partitions:
            yield from _check_partition(partition)
            steps.advance()


def _check_partition(partition: Path) -> Iterator[Problem]:
    end = _End()
    segments = sorted(partition.glob("*.log"))
    for segment in segments:
        problems: list[Problem] = []
        with suppress(FileNotFoundError):  # a node that runs has taken it away, here and below
            end = _check_segment(segment, end, problems, is_last=segment == segments[-1])
        yield from problems
        for suffix, check in ((".index", dump_index), (".timeindex", dump_time_index)):
            with suppress(FileNotFoundError):
                yield from _check_index(segment.with_suffix(suffix), check)
    for snapshot in sorted(partition.glob("*.snapshot")):
        try:
            decode_snapshot(snapshot.read_bytes())
        except FileNotFoundError:
            pass
        except CorruptSnapshotError as e:
            yield Problem(snapshot, str(e))
    for checkpoint in sorted(partition.glob("*.checkpoint")):
        problems = []
        with suppress(FileNotFoundError):
            _check_segment(checkpoint, _End(), problems, is_last=False)
        yield from problems


def _check_index(index: Path, check: Any) -> Iterator[Problem]:
    # While a node writes a segment its indexes have their full size, filled with zeros.
    if index.exists() and any(index.read_bytes()):
        yield from _findings(index, check)


def _check_segment(path: Path, end: _End, problems: list[Problem], *, is_last: bool) -> _End:
    """Note what is wrong with the batches of a file; give where the log is after it."""
    base = int(path.name.split(".")[0].split("-")[0]) if path.suffix == ".log" else 0
    position = 0
    try:
        with mapped(path) as log:
            for position, header in iter_headers(log, partial_tail=True):
                where = f"the batch at offset {header.base_offset}, position {position},"
                if not check_crc(log, position, header):
                    problems.append(Problem(path, f"{where} has a wrong checksum"))
                if header.base_offset < max(end.next_offset, base):
                    problems.append(Problem(path, f"{where} goes back: {max(end.next_offset, base)} was next"))
                if header.leader_epoch < end.epoch:
                    problems.append(Problem(path, f"{where} has epoch {header.leader_epoch} after {end.epoch}"))
                end = _End(header.next_offset, max(end.epoch, header.leader_epoch))
                position += header.size
            left = len(log) - position
            if left and not is_last:
                problems.append(Problem(path, f"{left} bytes at the end are no batch"))
    except ProtocolError as e:
        problems.append(Problem(path, f"at position {position}: {e}"))
    return end


def _findings(index: Path, check: Any) -> Iterator[Problem]:
    findings: list[str] = []
    try:
        for _ in check(index, _CHECK_ONLY, findings):
            pass
    except ProtocolError as e:
        findings = [f"points to what is no batch: {e}"]
    for finding in findings:
        if str(index.absolute()) not in finding:
            yield Problem(index, finding.strip())
