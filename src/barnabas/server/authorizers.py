"""The authorizer that `authorizer.class.name` names: Kafka's own, which decides alike by rules of the metadata log
(StandardAuthorizer) and of ZooKeeper (AclAuthorizer), or a plug-in (`model.authorizer` says of what shape), which is
asked with the whole context of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from barnabas.core.authorizer.loading import LoadingAuthorizer
from barnabas.core.authorizer.standard import ANY_RESOURCE, StandardAuthorizer, parse_super_users
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.authorizer import (
    NO_COUNT,
    Action,
    AuthorizationContext,
    Authorizer,
    AuthorizerNotReadyError,
    AuthorizesAny,
    CountsRules,
    FollowsRules,
)
from barnabas.model.config import ConfigError
from barnabas.server.authorizer_names import AUTHORIZERS
from barnabas.server.config import NodeConfig
from barnabas.server.plugins import load
from barnabas.wire.errors import ApiError, ErrorCode

log = structlog.get_logger("kafka.authorizer")

ENTRY_POINTS: Final = "barnabas.authorizers"
KEY: Final = "authorizer.class.name"


class PluginAuthorizer:
    """A plug-in as requests ask it. It is one object for as long as the node runs, whatever becomes of the rules."""

    def __init__(self, plugin: Authorizer) -> None:
        self._plugin = plugin

    @property
    def keeps_rules(self) -> bool:
        """Whether it decides by the ACLs of the metadata log, so that they can be created and described."""
        return isinstance(self._plugin, FollowsRules)

    def acl_count(self) -> int:
        """Give what AclCount shows: -1 for a plug-in that does not count (A-31)."""
        return self._plugin.acl_count() if isinstance(self._plugin, CountsRules) else NO_COUNT

    def follow(self, rules: StandardAuthorizer) -> None:
        """Hand it the rules as they are now, if it wants them. What it raises ends the node."""
        if isinstance(self._plugin, FollowsRules):
            self._plugin.follow(rules)

    def ask(self, context: AuthorizationContext, actions: Sequence[Action]) -> Sequence[bool]:
        """Give its answers; ApiError when it fails, AuthorizerNotReadyError when it says so."""
        try:
            answers = self._plugin.authorize(context, actions)
            if len(answers) != len(actions):
                raise ValueError(f"{len(answers)} answers to {len(actions)} questions")
        except AuthorizerNotReadyError:
            raise
        except Exception as e:  # foreign code: whatever it raises, nothing is granted
            raise _failed(context) from e
        return answers

    def ask_any(self, context: AuthorizationContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Say whether there is any resource of that type on which the principal may; errors as with `ask`."""
        if not isinstance(self._plugin, AuthorizesAny):
            question = Action(operation, resource_type, ANY_RESOURCE, 0, log_if_denied=False)
            return bool(self.ask(context, [question])[0])
        try:
            return bool(self._plugin.authorize_any(context, operation, resource_type))
        except AuthorizerNotReadyError:
            raise
        except Exception as e:  # foreign code, as above
            raise _failed(context) from e

    def close(self) -> None:
        """Let it let go of what it holds."""
        close = getattr(self._plugin, "close", None)
        if close is not None:
            close()


RequestAuthorizer = StandardAuthorizer | LoadingAuthorizer | PluginAuthorizer
"""What can answer for requests."""


def standard_authorizer(config: NodeConfig) -> StandardAuthorizer:
    """Give StandardAuthorizer as the configuration wants it, without rules yet."""
    return StandardAuthorizer(
        parse_super_users(config["super.users"]),
        allow_everyone_if_no_acl=config["allow.everyone.if.no.acl.found"],
        like_acl_authorizer=config.keeps_acls_in_zookeeper,
    )


def plugin_authorizer(config: NodeConfig) -> PluginAuthorizer | None:
    """Make and configure the plug-in that the node's file names, None for Kafka's own; ConfigError without one."""
    name = config[KEY]
    if name in AUTHORIZERS:
        return None
    made = load(KEY, name, ENTRY_POINTS)
    if not isinstance(made, type) or not callable(getattr(made, "authorize", None)):
        raise ConfigError(f"{KEY}: {name} is no class with a method authorize(context, actions)")
    plugin = made()
    configure = getattr(plugin, "configure", None)
    if configure is not None:
        configure(config.originals)
    return PluginAuthorizer(plugin)


def _failed(context: AuthorizationContext) -> ApiError:
    log.exception("the authorizer failed", request=context.request, principal=str(context.principal))
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the authorizer failed")
