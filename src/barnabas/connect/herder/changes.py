"""What the config topic has brought since the herder last looked: gathered record by record, worked off in one go."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.connect.config_state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigUpdated,
    ConnectorRemoved,
    RestartRequested,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from barnabas.core.connect.restarts import RestartRequest


@dataclass(slots=True)
class Changes:
    """Work for the herder. rebalance: why the group must share out anew, None when it need not.

    restarts: by connector the weightiest request; reconfigured: connectors to be stopped and started; wanted: those in
    another target state; replanned: those whose tasks have other configurations. since_ms: of `rebalance`.
    """

    rebalance: str | None = None
    since_ms: int = 0
    reconfigured: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    replanned: set[str] = field(default_factory=set)
    restarts: dict[str, RestartRequest] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rebalance or self.reconfigured or self.wanted or self.replanned or self.restarts)

    def add(self, event: ConfigEvent, known: ClusterConfigState, now_ms: int) -> None:
        """Take an event. known: what the herder knew before it."""
        match event:
            case ConnectorConfigUpdated(name) if name in known:
                self.reconfigured.add(name)  # one connector is to be bounced, nobody else is concerned
            case ConnectorConfigUpdated(name):
                self._rebalance(f"connector {name!r} is new", now_ms)
            case ConnectorRemoved(name) if name in known:
                self._rebalance(f"connector {name!r} has been deleted", now_ms)
            case ConnectorRemoved(name):
                self.reconfigured.add(name)
            case TargetStateChanged(name):
                self.wanted.add(name)
            case TaskConfigsUpdated(name):
                self.replanned.add(name)
                self._rebalance(f"connector {name!r} has other tasks", now_ms)
            case RestartRequested(request):
                before = self.restarts.get(request.connector)
                if before is None or request.impact > before.impact:
                    self.restarts[request.connector] = request

    def _rebalance(self, why: str, now_ms: int) -> None:
        if self.rebalance is None:
            self.rebalance, self.since_ms = why, now_ms
