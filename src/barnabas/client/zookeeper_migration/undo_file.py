"""The undo file on disk: what is in it is there to stay before the change is begun that it is for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from barnabas.core.zookeeper.migration import Before
from barnabas.core.zookeeper.migration_undo import UndoFileError, UndoHeader, before_line, header_line, read


def read_undo_file(path: Path) -> tuple[UndoHeader, dict[str, Before]]:
    """Give what a file says; UndoFileError when it cannot be read or is something else."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise UndoFileError(f"{path}: not an undo file of this tool") from None
    except OSError as e:
        raise UndoFileError(f"{path}: {e.strerror or e}") from None
    except UndoFileError as e:
        raise UndoFileError(f"{path}: {e}") from None


def write_undo_file(path: Path, header: UndoHeader, entries: Iterable[Before]) -> int:
    """Put these into a new file, or add to the one of a run that was interrupted what it has not; give how many.

    Whoever reads it learns no secrets, but it decides who may change the cluster: its mode is 0600. UndoFileError when
    it belongs to something else, or cannot be written.
    """
    try:
        if not path.exists():
            lines = [header_line(header), *map(before_line, entries)]
            _put(path, "".join(lines))
            return len(lines) - 1
        its, kept = read_undo_file(path)
        if its != header:
            raise UndoFileError(f"{path}: is of another run, {_told(its)}; this is {_told(header)}. Name another file")
        more = [before_line(one) for one in entries if one.path not in kept]
        _put(path, "".join([path.read_text(encoding="utf-8"), *more]))
        return len(more)
    except OSError as e:
        raise UndoFileError(f"{path}: {e.strerror or e}") from None


def _put(path: Path, text: str) -> None:
    work = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(work, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    work.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _told(header: UndoHeader) -> str:
    mode = "secure" if header.secure else "unsecure"
    return f"{mode} of cluster {header.cluster or 'without an id'} at {header.chroot or '/'}"
