"""`barnabas groups --list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import typer

from barnabas.cli.connection import run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat, show, show_json
from barnabas.client.admin import Admin
from barnabas.client.admin.groups import CONSUMER
from barnabas.client.config import ClientConfig
from barnabas.wire.messages.list_groups import ListedGroup

STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES: Final = ("Classic", "Consumer")


def list_groups(
    config: ClientConfig, filters: Sequence[str], *, states: bool, types: bool, output: OutputFormat
) -> None:
    """Print the groups that consumers make, with state and type when asked."""
    words = [w.strip() for text in filters for w in text.split(",") if w.strip()]
    wanted_states = [s for s in STATES if s.lower() in map(str.lower, words)]
    wanted_types = [t for t in TYPES if t.lower() in map(str.lower, words)]
    if len(wanted_states) + len(wanted_types) < len(set(map(str.lower, words))):
        raise CliError(f"--state takes {', '.join(STATES)}; --type takes {', '.join(TYPES)}.")

    async def work(admin: Admin) -> list[ListedGroup]:
        found = await admin.list_groups(states=wanted_states, types=wanted_types)
        return [g for g in found if g.protocol_type in (CONSUMER, "")]

    groups = run_admin(config, work, needs="Describe on the groups")
    if not states and not types:
        names = [g.group_id for g in groups]
        if output is OutputFormat.JSON:
            show_json(names)
        else:
            typer.echo("".join(f"{name}\n" for name in names), nl=False)
        return
    rows = [
        {"group": g.group_id}
        | ({"type": g.group_type or None} if types else {})
        | ({"state": g.group_state or None} if states else {})
        for g in groups
    ]
    show(rows, output, empty="There is no such group.")
