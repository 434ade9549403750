"""What a broker in ZooKeeper mode shows under the MBean names of Kafka 3.9: its session, and the controller's counts.

Every broker has the controller's names, as any may be elected; only the active controller counts, the others show 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.zookeeper.values import SessionEvent, SessionState
from barnabas.model.metrics import Metrics, mbean
from barnabas.server.controller_metrics import publish_counts, unclean_elections

if TYPE_CHECKING:
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.net.zookeeper.client import ZooKeeperClient
    from barnabas.server.zookeeper.metadata import ZooKeeperMetadata

_SESSION: Final = "SessionExpireListener"
_COUNTED: Final = {
    SessionState.CONNECTED: "SyncConnects",
    SessionState.SUSPENDED: "Disconnects",
    SessionState.EXPIRED: "Expires",
    SessionState.LOGIN_FAILED: "AuthFailures",
}
_SHOWN: Final = {
    SessionState.CONNECTED: "CONNECTED",
    SessionState.SUSPENDED: "CONNECTING",
    SessionState.EXPIRED: "CONNECTING",
    SessionState.LOGIN_FAILED: "AUTH_FAILED",
    SessionState.CLOSED: "CLOSED",
}
"""The words of ZooKeeper's own client."""


class SessionMetrics:
    """Publishes its names when made; follows the session from then on."""

    def __init__(self, registry: Metrics, zk: ZooKeeperClient) -> None:
        self._state = _SHOWN[SessionState.SUSPENDED]
        self._zk = zk
        self._meters = {
            state: registry.meter(_name(f"ZooKeeper{event}PerSec"), event.lower()) for state, event in _COUNTED.items()
        }
        self._logins = registry.meter(_name("ZooKeeperSaslAuthenticationsPerSec"), "saslauthentications")
        registry.gauge(_name("SessionState"), lambda: self._state)
        zk.on_state(self._changed)

    def _changed(self, event: SessionEvent) -> None:
        self._state = _SHOWN[event.state]
        if event.state in self._meters:
            self._meters[event.state].mark()
        if event.state is SessionState.CONNECTED and self._zk.settings.login is not None and not self._zk.login_failure:
            self._logins.mark()


class ZooKeeperControllerMetrics:
    """Publishes gauges when made; a publisher, as elections are counted when they come."""

    def __init__(self, registry: Metrics, metadata: ZooKeeperMetadata) -> None:
        self._metadata = metadata
        self._unclean = unclean_elections(registry)
        active = mbean("kafka.controller", type="KafkaController", name="ActiveControllerCount")
        registry.gauge(active, lambda: int(metadata.is_active))
        publish_counts(registry, lambda: metadata.committed_image if metadata.is_active else MetadataImage.EMPTY)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Count the unclean elections that this broker has decided."""
        if self._metadata.is_active and delta.unclean_elections:
            self._unclean.mark(delta.unclean_elections)


def _name(last: str) -> str:
    return mbean("kafka.server", type=_SESSION, name=last)
