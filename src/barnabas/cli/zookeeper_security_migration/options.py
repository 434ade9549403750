"""What was asked for on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from barnabas.cli.tables import OutputFormat
from barnabas.core.zookeeper.values import ZnodeId


@dataclass(frozen=True, slots=True)
class Options:
    """See the command. undo_file: where to keep what was before; undo: what to bring back, whatever `secure` says."""

    connect: str
    session_timeout_ms: int
    connection_timeout_ms: int
    tls_file: Path | None
    secure: bool
    grants: tuple[ZnodeId, ...]
    revoke_others: bool
    path_check: bool
    dry_run: bool
    output: OutputFormat
    undo_file: Path
    undo: Path | None
