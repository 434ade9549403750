"""`partition.metadata`: the topic id a partition's directory belongs to (KIP-516)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.storage.fs import FileSystem

FILE_NAME: Final = "partition.metadata"
_BEGINNING: Final = "version: 0\ntopic_id: "
_ID_LENGTH: Final = 22


class InconsistentTopicIdError(Exception):
    """A partition's directory belongs to another topic of the same name, or its file is damaged."""


def read(fs: FileSystem, directory: Path) -> Uuid | None:
    """Give the topic id; None when there is no file, InconsistentTopicIdError when it is damaged."""
    path = directory / FILE_NAME
    try:
        text = fs.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    if _is_torn(text):
        # Power failed between its making and the first flush; who opens the log knows the id.
        return None
    pairs = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        if pairs["version"] != "0":
            raise ValueError(f"version {pairs['version']}")
        topic_id = Uuid.parse(pairs["topic_id"])
    except (KeyError, ValueError) as e:
        raise InconsistentTopicIdError(f"{path} is damaged: {e!r}") from None
    if topic_id == ZERO_UUID:
        raise InconsistentTopicIdError(f"{path} has the topic id zero")
    return topic_id


def _is_torn(text: str) -> bool:
    """Say whether this is the first part of what `write` writes, and not all of it."""
    if len(text) <= len(_BEGINNING):
        return _BEGINNING.startswith(text)
    return text.startswith(_BEGINNING) and len(text) < len(_BEGINNING) + _ID_LENGTH


def write(fs: FileSystem, directory: Path, topic_id: Uuid) -> None:
    """Replace the file; durable after `sync`, which comes with the log's first flush."""
    fs.write_soon(directory / FILE_NAME, f"{_BEGINNING}{topic_id}".encode())


def sync(fs: FileSystem, directory: Path) -> None:
    """Make the file durable, if there is one; its name is with the next sync of the directory."""
    try:
        fs.open(directory / FILE_NAME).fsync()
    except FileNotFoundError:
        pass


def reconcile(fs: FileSystem, directory: Path, topic_id: Uuid | None) -> Uuid | None:
    """Give the directory's topic id, written if it had none; InconsistentTopicIdError when it has another."""
    known = read(fs, directory)
    if known is None and topic_id is not None:
        write(fs, directory, topic_id)
        return topic_id
    if known is not None and topic_id is not None and known != topic_id:
        raise InconsistentTopicIdError(f"{directory} belongs to the topic id {known}, not {topic_id}")
    return known
