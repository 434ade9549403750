"""What a worker gives its herder."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder_port import Plugins
from barnabas.connect.leader_client import LeaderClient
from barnabas.connect.metrics import WorkerMetrics
from barnabas.connect.runtime import Runtime
from barnabas.model.ports import Clock


@dataclass(frozen=True, slots=True)
class Parts:
    """What a herder is put together from. rest_url: where other workers reach this one's REST server."""

    config: WorkerConfig
    worker_id: str
    rest_url: str
    runtime: Runtime
    plugins: Plugins
    client: LeaderClient
    clock: Clock
    metrics: WorkerMetrics
