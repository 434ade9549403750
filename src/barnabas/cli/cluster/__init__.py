"""`barnabas cluster`: a cluster on this machine to play with, and kafka-cluster's commands on any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import typer

from barnabas.cli.cluster import kafka_cluster, local

LOCAL: Final[tuple[tuple[str, Callable[..., None]], ...]] = (
    ("start", local.start),
    ("status", local.status),
    ("add", local.add),
    ("kill", local.kill),
    ("pause", local.pause),
    ("resume", local.resume),
    ("restart", local.restart),
    ("stop", local.stop),
    ("logs", local.logs),
)
ANY: Final[tuple[tuple[str, Callable[..., None]], ...]] = (
    ("cluster-id", kafka_cluster.cluster_id),
    ("list-endpoints", kafka_cluster.list_endpoints),
    ("unregister", kafka_cluster.unregister),
)

app = typer.Typer(no_args_is_help=True)
for _name, _function in LOCAL:
    app.command(_name, rich_help_panel="A cluster on this machine")(_function)
for _name, _function in ANY:
    app.command(_name, rich_help_panel="Any cluster")(_function)
