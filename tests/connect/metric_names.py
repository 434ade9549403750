"""What Apache Kafka's workers show of themselves and ours do not, and why.

An item is `type{keys of tags}#attribute`; a key of this table is a pattern that whole items match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OF_THE_CLIENTS: Final = "measurements of Kafka's client library; ours has none of its own"
_ONE_STEP: Final = "a batch is read, written and committed as one: there is nothing between, and nothing in flight"
_NOT_COUNTED: Final = "counting rows before or after transformations would take one more pass over each batch"
_NOT_TOLD: Final = "no event of the runtime tells of it"

MISSING: Final[Mapping[str, str]] = {
    r"app-info\{.*": _OF_THE_CLIENTS,
    r"connect-metrics\{client-id\}#.*": _OF_THE_CLIENTS,
    r"connect-node-metrics\{.*": _OF_THE_CLIENTS,
    r"connect-coordinator-metrics\{.*": f"{_OF_THE_CLIENTS}; see connect-worker-rebalance-metrics",
    r"kafka-metrics-count\{.*": _OF_THE_CLIENTS,
    r"connector-task-metrics\{.*\}#offset-commit-.*": _ONE_STEP,
    r"sink-task-metrics\{.*\}#offset-commit-skip-.*": _ONE_STEP,
    r"sink-task-metrics\{.*\}#sink-record-active-.*": _ONE_STEP,
    r"source-task-metrics\{.*\}#source-record-active-.*": _ONE_STEP,
    r"sink-task-metrics\{.*\}#sink-record-send-.*": _NOT_COUNTED,
    r"source-task-metrics\{.*\}#source-record-poll-.*": _NOT_COUNTED,
    r"task-error-metrics\{.*\}#(deadletterqueue-produce-failures|total-errors-logged|total-retries)": _NOT_TOLD,
}
