"""The configuration table of a node: Kafka 4.3's keys, and those of 3.9 for ZooKeeper mode, a module a subject."""

from itertools import chain
from typing import Final

from barnabas.model.config import ConfigTable
from barnabas.server.config_keys import (
    accepted,
    controller,
    general,
    groups,
    logins,
    logs,
    quorum,
    quotas,
    replication,
    security,
    telemetry,
    transactions,
    zookeeper,
)

SECTIONS: Final = {
    "Roles, listeners, sockets and topics": general.KEYS,
    "Security": security.KEYS,
    "Logins": logins.KEYS,
    "Data on disk": logs.KEYS,
    "Groups": groups.KEYS,
    "Metadata quorum": quorum.KEYS,
    "What the active controller does by itself": controller.KEYS,
    "Replication": replication.KEYS,
    "Transactions": transactions.KEYS,
    "Quotas": quotas.KEYS,
    "Clients' metrics": telemetry.KEYS,
    "ZooKeeper mode": zookeeper.KEYS,
}
"""What has an effect, by subject, as the reference shows it."""
ACCEPTED: Final = (*accepted.KEYS, *zookeeper.ACCEPTED)
"""What has none, so that one file serves both."""
OF_ZOOKEEPER_MODE: Final = frozenset(key.name for key in (*zookeeper.KEYS, *zookeeper.ACCEPTED))
"""What means nothing to a node with `process.roles`, an authorizer that keeps its rules in ZooKeeper apart."""
TABLE: Final = ConfigTable(*chain.from_iterable(SECTIONS.values()), *ACCEPTED)
