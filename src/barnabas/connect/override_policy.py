"""Which settings of their clients connectors may override: `connector.client.config.override.policy` (KIP-458)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.connect.config import WorkerConfig
from barnabas.model.config import parse_list

POLICY: Final = "connector.client.config.override.policy"
ALLOWED: Final = "connector.client.config.override.allowlist"
_OF_PRINCIPALS: Final = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_KAFKA: Final = "ConnectorClientConfigOverridePolicy"


def refusals(worker: WorkerConfig, overridden: Iterable[str]) -> dict[str, str]:
    """Give why, for each of these settings of a client that a connector must not override."""
    policy = worker.text(POLICY).rpartition(".")[2].removesuffix(_KAFKA)
    allowed = _allowed(policy, worker)
    if allowed is None:
        return {}
    may = f"may override {', '.join(allowed)} only" if allowed else "may override nothing"
    return {
        name: f"{name}: connectors {may}, as this worker's {POLICY} is {policy}"
        for name in overridden
        if name not in allowed
    }


def _allowed(policy: str, worker: WorkerConfig) -> tuple[str, ...] | None:
    match policy:
        case "All":
            return None
        case "Principal":
            return _OF_PRINCIPALS
        case "Allowlist":
            return tuple(parse_list(worker.properties.get(ALLOWED, "")))
        case _:
            return ()
