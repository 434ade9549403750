"""Authorization of one request: asks the authorizer, writes the audit trail, remembers that it was asked.

An authorizer that is not ready refuses with UNKNOWN_SERVER_ERROR: AUTHORIZER_NOT_READY, which no client knows, is for
Envelopes alone (`handlers.envelope`, KIP-801). A plug-in writes its own trail.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from barnabas.core.authorizer.audit import AuditEntry, AuditLevel, format_audit, level_of
from barnabas.core.authorizer.loading import LoadingAuthorizer
from barnabas.core.authorizer.standard import ANY_RESOURCE, AuthorizationResult, StandardAuthorizer
from barnabas.model.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType
from barnabas.model.authorizer import Action, AuthorizationContext, AuthorizerNotReadyError
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.authorizers import PluginAuthorizer, RequestAuthorizer
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.context import ClientConnection

AUDIT_LOGGER: Final = "kafka.authorizer.logger"
TRACE: Final = 5
"""The level beneath DEBUG, as log4j has it."""
logging.addLevelName(TRACE, "TRACE")
# The standard library's logger, because the trail is a stable text for other programs: the message is the whole line.
_audit_log = logging.getLogger(AUDIT_LOGGER)
_LEVELS: Final = {AuditLevel.INFO: logging.INFO, AuditLevel.DEBUG: logging.DEBUG, AuditLevel.TRACE: TRACE}


class Authz:
    """The decisions on one request, all made on one state of the rules.

    authorizer: None where nobody configured one, and everybody may do everything. `decided` is False until the first
    decision; the router sends no answer before that. `was_ready` is False once the authorizer could not answer yet.
    """

    __slots__ = (
        "_authorizer", "_client_id", "_connection", "_request", "decided", "forwarded_by", "host", "principal",
        "was_ready",
    )  # fmt: skip

    def __init__(
        self,
        authorizer: RequestAuthorizer | None,
        principal: KafkaPrincipal,
        host: str,
        request: str,
        *,
        forwarded_by: KafkaPrincipal | None = None,
        connection: ClientConnection | None = None,
        client_id: str | None = None,
    ) -> None:
        """host: the client's IP as Java prints it (`model.addresses.host_text`); request: the API's name, `Fetch`;
        forwarded_by: the broker that vouches for the principal (KIP-590), None when the client asks itself;
        connection, client_id: what a plug-in is told of the request besides."""
        self._authorizer = authorizer
        self._request = request
        self.principal = principal
        self.host = host
        self.forwarded_by = forwarded_by
        self.decided = False
        self.was_ready = True
        self._connection = connection
        self._client_id = client_id

    def is_ready(self) -> bool:
        """Say whether the authorizer could answer so far, and can answer whatever is asked about the principal."""
        if isinstance(self._authorizer, LoadingAuthorizer):
            return self._authorizer.knows(self.principal)
        return self.was_ready

    def authorize(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        audit: bool = True,
        audit_denied: bool = True,
        references: int = 1,
    ) -> bool:
        """Say whether the principal may do `operation` to the resource.

        audit: false for checks that only list rights, and grant nothing; audit_denied: false where nobody asked for
        this very resource, as when a listing is filtered. Both put a line down to TRACE. references: how often the
        request names the resource.
        """
        self.decided = True
        if self._authorizer is None:
            return True
        if isinstance(self._authorizer, PluginAuthorizer):
            action = Action(operation, resource_type, name, references, audit, audit and audit_denied)
            return bool(self._ask(self._authorizer, [action])[0])
        try:
            result = self._authorizer.authorize(self.principal, self.host, operation, resource_type, name)
        except AuthorizerNotReadyError as e:
            self._not_ready(e)
        level = _LEVELS[level_of(result, log_if_allowed=audit, log_if_denied=audit and audit_denied)]
        if _audit_log.isEnabledFor(level):
            self._write(level, result, operation, resource_type, name, references)
        return result.allowed

    def authorize_many(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        audit: bool = True,
        audit_denied: bool = True,
    ) -> set[str]:
        """Give those of `names` to which the principal may do `operation`."""
        self.decided = True
        if self._authorizer is None:
            return set(names)
        if isinstance(self._authorizer, PluginAuthorizer):
            wanted = [
                Action(operation, resource_type, name, references, audit, audit and audit_denied)
                for name, references in Counter(names).items()
            ]
            answers = self._ask(self._authorizer, wanted)
            return {action.name for action, allowed in zip(wanted, answers, strict=True) if allowed}
        return {
            name
            for name, references in Counter(names).items()
            if self.authorize(
                operation, resource_type, name, audit=audit, audit_denied=audit_denied, references=references
            )
        }

    def authorize_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Say whether there is any resource of that type to which the principal may do `operation` (KIP-679)."""
        self.decided = True
        if self._authorizer is None:
            return True
        try:
            if isinstance(self._authorizer, PluginAuthorizer):
                return self._authorizer.ask_any(self._context(), operation, resource_type)
            return self._authorize_any(self._authorizer, operation, resource_type)
        except AuthorizerNotReadyError as e:
            self._not_ready(e)

    def _authorize_any(
        self, authorizer: StandardAuthorizer | LoadingAuthorizer, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        if _audit_log.isEnabledFor(logging.DEBUG):
            # The trail tells of the one question that Kafka's does.
            self.authorize(operation, resource_type, ANY_RESOURCE, audit_denied=False, references=0)
        return authorizer.authorize_by_resource_type(self.principal, self.host, operation, resource_type)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Give the operations that the principal may do to the resource, as an int32 bit field (KIP-430)."""
        self.decided = True
        operations = SUPPORTED_OPERATIONS[resource_type]
        if isinstance(self._authorizer, PluginAuthorizer):
            wanted = [Action(o, resource_type, name, 1, log_if_allowed=False, log_if_denied=False) for o in operations]
            answers = self._ask(self._authorizer, wanted)
            return sum(1 << o for o, allowed in zip(operations, answers, strict=True) if allowed)
        return sum(1 << o for o in operations if self.authorize(o, resource_type, name, audit=False))

    def _ask(self, authorizer: PluginAuthorizer, actions: Sequence[Action]) -> Sequence[bool]:
        try:
            return authorizer.ask(self._context(), actions)
        except AuthorizerNotReadyError as e:
            self._not_ready(e)

    def _context(self) -> AuthorizationContext:
        connection = self._connection
        return AuthorizationContext(
            self.principal,
            self.host,
            "" if connection is None else connection.listener_name,
            "" if connection is None else connection.security_protocol,
            self._client_id,
            self._request,
            self.forwarded_by,
        )

    def _not_ready(self, error: AuthorizerNotReadyError) -> NoReturn:
        self.was_ready = False
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the authorizer is not ready yet; try again") from error

    def _write(
        self,
        level: int,
        result: AuthorizationResult,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        references: int,
    ) -> None:
        entry = AuditEntry(
            self.principal, result.allowed, operation, self.host, resource_type, name, self._request, references,
            result.rule, forwarded_by=self.forwarded_by,
        )  # fmt: skip
        _audit_log.log(level, "%s", format_audit(entry))
