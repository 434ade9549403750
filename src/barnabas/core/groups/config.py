"""What an operator can set about groups; the names and defaults are Kafka's (GroupCoordinatorConfig, GroupConfig)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

CONSUMER_SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
CONSUMER_ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"

Overrides = Callable[[str], Mapping[str, int]]
"""What the configuration resource of a group sets, by the group's id and the keys above."""


class MigrationPolicy(Enum):
    """Which way a group with members may change its protocol (group.consumer.migration.policy)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @classmethod
    def parse(cls, name: str) -> MigrationPolicy:
        """Give the policy of this name, in any case; ValueError names those that there are."""
        try:
            return cls(name.lower())
        except ValueError:
            known = ", ".join(policy.value for policy in cls)
            raise ValueError(f"group.consumer.migration.policy is {name!r}: set one of {known}") from None

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of the consumer protocol joins it."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes a classic one when its last member of the consumer protocol goes."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A duration in ms that a group may set for itself within the broker's bounds."""

    default: int
    least: int
    most: int

    def of(self, wanted: int | None) -> int:
        """Give what counts when a group wants this, None when it wants nothing of its own."""
        return self.default if wanted is None else min(max(wanted, self.least), self.most)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Limits and delays of the consumer group protocol (KIP-848). Durations in ms.

    assignors: what members may ask for, the first one is the default.
    """

    session_timeout_ms: Bounded = Bounded(45_000, 45_000, 60_000)
    heartbeat_interval_ms: Bounded = Bounded(5_000, 5_000, 15_000)
    assignment_interval_ms: Bounded = Bounded(1_000, 0, 15_000)
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
    overrides: Overrides = lambda group_id: {}

    def session_of(self, group_id: str) -> int:
        """Give after which silence a member of the group is gone."""
        return self.session_timeout_ms.of(self.overrides(group_id).get(CONSUMER_SESSION_TIMEOUT_MS))

    def heartbeat_of(self, group_id: str) -> int:
        """Give how often members of the group shall send heartbeats."""
        return self.heartbeat_interval_ms.of(self.overrides(group_id).get(CONSUMER_HEARTBEAT_INTERVAL_MS))

    def assignment_of(self, group_id: str) -> int:
        """Give how long a target assignment of the group stands at least."""
        return self.assignment_interval_ms.of(self.overrides(group_id).get(CONSUMER_ASSIGNMENT_INTERVAL_MS))


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Limits and delays of the classic group protocol and of committed offsets. Durations in ms."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    """How long a JoinGroup of a new member may be parked; Kafka has no key for it either."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
