"""`barnabas storage random-uuid`."""

from __future__ import annotations

import typer

from barnabas.server.format import random_uuid as new_uuid


def random_uuid() -> None:
    """Print a random id, for example for a new cluster."""
    typer.echo(str(new_uuid()))
