"""What policies are asked: may this topic be made, may these configs be set (KIP-108, KIP-133)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class PolicyViolationError(Exception):
    """The policy says no; the text reaches the client with the code POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A topic that somebody, or the cluster itself, wants made.

    Either `num_partitions` and `replication_factor` are given, defaults of the cluster worked in, or
    `replica_assignments`: the brokers of each partition, the preferred leader first. configs: as asked for.
    """

    topic: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigsRequest:
    """Configs that are to be changed. resource_type: `TOPIC`, `BROKER`, ...; resource_name: empty for all brokers.

    configs: the keys that change and their new values, None where a key is to be taken away. Values that a list gains
    or loses are worked in. Keys that the old AlterConfigs drops by not naming them are not here, as in Kafka.
    """

    resource_type: str
    resource_name: str
    configs: Mapping[str, str | None] = field(default_factory=dict)


CheckTopic = Callable[[TopicRequest], None]
"""ApiError when the policy does not allow the topic."""
CheckConfigs = Callable[[ConfigsRequest], None]
"""ApiError when the policy does not allow the change."""


def allow_topic(request: TopicRequest) -> None:
    """Allow every topic: there is no policy."""


def allow_configs(request: ConfigsRequest) -> None:
    """Allow every change: there is no policy."""
