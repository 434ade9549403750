"""Where the demonstration keeps what it makes; everything it needs to resume is in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Folder:
    """The paths under one output folder."""

    root: Path

    @property
    def node(self) -> Path:
        """Give the data directory of the node."""
        return self.root / "node"

    @property
    def ready_file(self) -> Path:
        """Give the file that the node writes when it serves."""
        return self.root / "ready.json"

    @property
    def node_log(self) -> Path:
        """Give the file with what the node prints."""
        return self.root / "node.log"

    @property
    def lake(self) -> Path:
        """Give the Parquet folder."""
        return self.root / "lake"

    @property
    def workers(self) -> Path:
        """Give the folder of the Connect workers: their settings, logs and scratch."""
        return self.root / "workers"

    @property
    def picture(self) -> Path:
        """Give the picture of the report."""
        return self.root / "delays.png"

    def client_file(self, user: str) -> Path:
        """Give the file with a user's client settings and password, mode 0600."""
        return self.root / "clients" / f"{user}.properties"
