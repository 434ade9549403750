"""Policies as plug-ins in Python: `create.topic.policy.class.name` and `alter.config.policy.class.name`.

A policy is a class without arguments. The key names it in one of three ways: `package.module:Class`,
`package.module.Class`, or the name of an entry point in the group `barnabas.policies` of an installed package::

    from barnabas.server.policies import CreateTopicPolicy, PolicyViolationError, TopicRequest

    class AtLeastThreeReplicas(CreateTopicPolicy):
        def validate(self, request: TopicRequest) -> None:
            if request.replication_factor is not None and request.replication_factor < 3:
                raise PolicyViolationError("topics need three replicas here")

It is made once, where the controller runs, and asked in the controller's own loop: it must answer at once. Every
topic passes through it, those that the cluster makes for itself and for clients that only ask for metadata included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isabstract
from typing import Any, Final, TypeVar

import structlog

from barnabas.model.config import ConfigError
from barnabas.model.policy import (
    CheckConfigs,
    CheckTopic,
    ConfigsRequest,
    PolicyViolationError,
    TopicRequest,
    allow_configs,
    allow_topic,
)
from barnabas.server.config import NodeConfig
from barnabas.server.plugins import load
from barnabas.wire.errors import ApiError, ErrorCode

__all__ = [
    "AlterConfigPolicy",
    "ConfigsRequest",
    "CreateTopicPolicy",
    "Policies",
    "PolicyViolationError",
    "TopicRequest",
]

log = structlog.get_logger("kafka.controller.policies")

CREATE_TOPIC: Final = "create.topic.policy.class.name"
ALTER_CONFIG: Final = "alter.config.policy.class.name"
ENTRY_POINTS: Final = "barnabas.policies"


class Policy:
    """What both kinds have in common; a policy need not override any of it."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the node's properties, as they stand in its file; called once, before anything is asked."""

    def close(self) -> None:
        """Let go of what it holds; called once, when the node stops."""


class CreateTopicPolicy(Policy, ABC):
    """Says which topics may be made (KIP-108)."""

    @abstractmethod
    def validate(self, request: TopicRequest) -> None:
        """Raise PolicyViolationError when the topic may not be made; its text is for the client."""


class AlterConfigPolicy(Policy, ABC):
    """Says which configs may be set (KIP-133)."""

    @abstractmethod
    def validate(self, request: ConfigsRequest) -> None:
        """Raise PolicyViolationError when the configs may not be set; its text is for the client."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a node that is a controller: what `core.metadata` asks, and what is to be closed."""

    create_topic: CheckTopic = allow_topic
    alter_config: CheckConfigs = allow_configs
    _made: tuple[Policy, ...] = ()

    @classmethod
    def load(cls, config: NodeConfig) -> Policies:
        """Make and configure the policies that the node's file names; ConfigError when one cannot be had."""
        create = _made(config, CREATE_TOPIC, CreateTopicPolicy)  # type: ignore[type-abstract]  # a class to derive from
        alter = _made(config, ALTER_CONFIG, AlterConfigPolicy)  # type: ignore[type-abstract]
        return cls(
            allow_topic if create is None else _asked(CREATE_TOPIC, create.validate),
            allow_configs if alter is None else _asked(ALTER_CONFIG, alter.validate),
            tuple(policy for policy in (create, alter) if policy is not None),
        )

    def close(self) -> None:
        """Close them."""
        for policy in self._made:
            policy.close()


P = TypeVar("P", bound=Policy)


def _made(config: NodeConfig, key: str, kind: type[P]) -> P | None:
    name = config[key]
    if not name:
        return None
    found = load(key, name, ENTRY_POINTS)
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise ConfigError(f"{key}: {name} is not a {kind.__name__}; derive it from {kind.__module__}.{kind.__name__}")
    if isabstract(found):
        raise ConfigError(f"{key}: {name} has no method validate(request)")
    policy = found()
    policy.configure(config.originals)
    return policy


def _asked(key: str, validate: Callable[[R], None]) -> Callable[[R], None]:
    def check(request: R) -> None:
        try:
            validate(request)
        except PolicyViolationError as e:
            raise ApiError(ErrorCode.POLICY_VIOLATION, str(e)) from e
        except ApiError:
            raise
        except Exception as e:  # foreign code: whatever it raises, the topic is not made
            log.exception("a policy failed", policy=key)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from e

    return check
