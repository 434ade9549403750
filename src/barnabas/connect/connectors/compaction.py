"""Merges small files of a sink into larger ones, by a commit of its manifest that adds some and removes others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connectors.manifest import Commit, Manifest
from barnabas.connect.connectors.storage import Storage

_COLUMNS: Final = frozenset({"parquet", "orc"})
_LINES: Final = frozenset({"json", "csv", "text"})


def compactable(format: str, options: Mapping[str, str]) -> bool:
    """Say whether files of a format can be merged: not those that begin with a line of their own."""
    headed = {key.lower(): text for key, text in options.items()}.get("header", "false").lower() == "true"
    return format.lower() in _COLUMNS | _LINES and not headed


@dataclass(frozen=True, slots=True)
class Compaction:
    """least_files: how many small files a folder must have; small_bytes: what is small."""

    spark: SparkSession
    storage: Storage
    manifest: Manifest
    format: str
    options: Mapping[str, str]
    least_files: int
    small_bytes: int

    def run(self, commit: Commit) -> None:
        """Look at the folders that a commit added to, and merge where there is enough to be merged."""
        for folder in sorted({name.rpartition("/")[0] for name in commit.added}):
            small = [name for name, size in self._files(folder) if size < self.small_bytes]
            if len(small) >= self.least_files:
                self._merge(folder, small)

    def _files(self, folder: str) -> list[tuple[str, int]]:
        below = f"{folder}/" if folder else ""
        return [(below + name, size) for name, size in self.storage.files(folder) if "/" not in name]

    def _merge(self, folder: str, names: Sequence[str]) -> None:
        staging = self.manifest.stage()
        goal = self.storage.uri(self.manifest.path_of(staging) + (f"/{folder}" if folder else ""))
        frame = self._read([self.storage.uri(name) for name in names]).coalesce(1)
        format = self.format if self.format.lower() in _COLUMNS else "text"
        frame.write.format(format).options(**self._kept(format)).save(goal)
        self.manifest.commit(staging, {}, {}, removed=names)

    def _read(self, paths: list[str]) -> DataFrame:
        if self.format.lower() in _COLUMNS:
            return self.spark.read.format(self.format).option("mergeSchema", "true").load(paths)
        return self.spark.read.text(paths)

    def _kept(self, format: str) -> dict[str, str]:
        return {key: text for key, text in self.options.items() if format != "text" or key.lower() == "compression"}
