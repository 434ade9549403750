"""`barnabas features describe`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig, Connection, run_admin
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.model.features import METADATA_VERSION, MetadataVersion


def describe(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    node_id: Annotated[int | None, typer.Option(help="What this node supports; any node's answer without.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show which feature levels nodes support, and which the cluster has finalised.

    Examples:

      barnabas features --bootstrap-server localhost:9092 describe
    """
    config = Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx)
    levels = run_admin(config, lambda admin: admin.describe_features(node_id))
    show(
        [
            {
                "feature": name,
                "supported_min": level_text(name, low),
                "supported_max": level_text(name, high),
                "finalized": level_text(name, levels.finalized.get(name, 0)),
                "epoch": levels.epoch,
            }
            for name, (low, high) in sorted(levels.supported.items())
        ],
        output,
    )


def level_text(feature: str, level: int) -> str:
    """Give a level as people know it: that of metadata.version by its release."""
    if feature == METADATA_VERSION:
        try:
            return str(MetadataVersion(level))
        except ValueError:
            return f"{level} (newer than this tool)" if level else "0"
    return str(level)
