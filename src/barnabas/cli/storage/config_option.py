"""The `--config` option of the storage commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barnabas.server.config import NodeConfig

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", help="The server.properties of the node.", show_default=False)
]


def directories(config: NodeConfig) -> list[Path]:
    """Give every directory of the node, the one of the metadata log included, sorted."""
    return sorted({Path(d) for d in (*config.log_dirs, config.metadata_log_dir)})
