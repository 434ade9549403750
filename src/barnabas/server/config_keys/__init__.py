"""The configuration table of a node: Kafka 4.3's keys, a module a subject."""

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
    transactions,
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
}
"""What has an effect, by subject, as the reference shows it."""
TABLE: Final = ConfigTable(*chain.from_iterable(SECTIONS.values()), *accepted.KEYS)
