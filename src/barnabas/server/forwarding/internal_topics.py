"""The topics that a cluster makes for itself, in the shape that its brokers ask the controller for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.transactions.transaction_coordinator import TRANSACTION_TOPIC
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig


def internal_topic(name: str, config: NodeConfig) -> CreatableTopic | None:
    """Give what to ask for, as `offsets.topic.*` and `transaction.state.log.*` say; None for any other topic."""
    if name == OFFSETS_TOPIC:
        prefix = "offsets.topic"
        configs = {"compression.type": "producer"}
    elif name == TRANSACTION_TOPIC:
        prefix = "transaction.state.log"
        configs = {
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
            "unclean.leader.election.enable": "false",
        }
    else:
        return None
    configs |= {"cleanup.policy": "compact", "segment.bytes": str(config[f"{prefix}.segment.bytes"])}
    return CreatableTopic(
        name=name,
        num_partitions=config[f"{prefix}.num.partitions"],
        replication_factor=config[f"{prefix}.replication.factor"],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in sorted(configs.items())],
    )
