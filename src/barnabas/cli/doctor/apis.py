"""`barnabas doctor apis`: what a node serves, printed from the lists that serve it."""

from __future__ import annotations

from typing import Any

from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.server.handlers import BROKER, CONTROLLER, TELEMETRY
from barnabas.server.router import Router
from barnabas.wire.api_keys import API_KEYS


def apis(output: Output = OutputFormat.TABLE) -> None:
    """List every API with its versions, where it is served, and what permission it takes.

    A broker carries a forwarded API to the controller; "by resource" means that the handler asks for each topic,
    group or other resource in the request. Telemetry is served where clients' metrics have somewhere to go.

    Examples:

      barnabas doctor apis
    """
    broker, controller = Router((*BROKER, *TELEMETRY), listener="broker"), Router(CONTROLLER, listener="controller")
    rows: list[dict[str, Any]] = []
    for key, row in sorted(API_KEYS.items()):
        here, there = broker.handler(row), controller.handler(row)
        handler = here or there
        forwarded = row.forwardable and here is None and there is not None
        rows.append(
            {
                "key": key,
                "api": row.name,
                "versions": f"{row.min_version}-{row.max_version}",
                "broker": "serves" if here else "forwards" if forwarded else None,
                "controller": "serves" if there else None,
                "forwardable": row.forwardable,
                "cluster_action": row.cluster_action,
                "permission": str(handler.rule) if handler else None,
            }
        )
    show(rows, output)
