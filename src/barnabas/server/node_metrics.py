"""What of a node is read off when somebody looks, rather than counted."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.model.metrics import mbean
from barnabas.server.metrics import ServerMetrics
from barnabas.server.replication.fetch_sessions import FetchSessions
from barnabas.storage.log_dirs import LogDirs

NO_AUTHORIZER = -1


def publish_node_metrics(
    metrics: ServerMetrics,
    log_dirs: LogDirs,
    fetch_sessions: FetchSessions,
    *,
    connections: Callable[[], int],
    authorizer: Callable[[], StandardAuthorizer | None],
) -> None:
    """Publish the gauges of a node under Kafka's names."""

    def acl_count() -> int:
        found = authorizer()
        return NO_AUTHORIZER if found is None else found.acl_count

    metrics.publish_totals()
    gauge = metrics.registry.gauge
    gauge(mbean("kafka.log", type="LogManager", name="OfflineLogDirectoryCount"), lambda: len(log_dirs.offline))
    gauge(
        mbean("kafka.server", type="FetchSessionCache", name="NumIncrementalFetchSessions"),
        lambda: len(fetch_sessions),
    )
    gauge(mbean("kafka.server", type="socket-server-metrics"), connections, "connection-count")
    gauge(mbean("kafka.server", type="Authorizer", name="AclCount"), acl_count)
