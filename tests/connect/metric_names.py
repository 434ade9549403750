"""What Apache Kafka's workers show of themselves and ours do not, and why.

An item is `type{keys of tags}#attribute`; a key of this table is a pattern that whole items match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OF_THE_CLIENTS: Final = "measurements of Kafka's client library; ours has none of its own"

MISSING: Final[Mapping[str, str]] = {
    r"app-info\{.*": _OF_THE_CLIENTS,
    r"connect-metrics\{client-id\}#.*": _OF_THE_CLIENTS,
    r"connect-node-metrics\{.*": _OF_THE_CLIENTS,
    r"connect-coordinator-metrics\{.*": f"{_OF_THE_CLIENTS}; see connect-worker-rebalance-metrics",
    r"kafka-metrics-count\{.*": _OF_THE_CLIENTS,
}
