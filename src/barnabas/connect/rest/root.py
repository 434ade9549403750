"""`/` and `/health`: who this worker is, and whether it works."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from aiohttp import web

from barnabas.connect.herder_port import Herder
from barnabas.connect.rest.endpoint import Endpoint, answered

COMMIT: Final = "Unknown"
"""Where a JVM worker names the commit that it was built from."""


async def server_info(herder: Herder, request: web.Request) -> web.Response:
    """Say which version this is, on which Kafka cluster."""
    return answered(
        {"version": version("barnabas"), "commit": COMMIT, "kafka_cluster_id": herder.kafka_cluster_id},
    )


async def health(herder: Herder, request: web.Request) -> web.Response:
    """Say whether start-up is over and requests are worked on (KIP-1017)."""
    found = herder.health()
    detail = f" The worker is currently {found.stage}." if found.stage else ""
    if found.healthy:
        return answered(
            {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
        )
    if not found.ready:
        return answered({"status": "starting", "message": f"Worker is still starting up.{detail}"}, status=503)
    return answered(
        {"status": "unhealthy", "message": f"The herder does not turn; requests are likely to time out.{detail}"},
        status=500,
    )


ENDPOINTS: Final = (
    Endpoint("GET", "/", "Version of this worker, and the Kafka cluster it works on", server_info),
    Endpoint("GET", "/health", "Whether this worker is ready", health),
)
