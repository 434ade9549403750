"""The configuration table of a node: Kafka 4.3's keys, a module a subject."""

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

TABLE: Final = ConfigTable(
    *general.KEYS,
    *security.KEYS,
    *logins.KEYS,
    *logs.KEYS,
    *groups.KEYS,
    *quorum.KEYS,
    *controller.KEYS,
    *quotas.KEYS,
    *replication.KEYS,
    *transactions.KEYS,
    *accepted.KEYS,
)
