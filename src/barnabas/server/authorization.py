"""Authorization of one request: asks the authorizer, writes the audit trail, remembers that it was asked."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final

from barnabas.core.authorizer.audit import AuditEntry, AuditLevel, format_audit, level_of
from barnabas.core.authorizer.standard import ANY_RESOURCE, AuthorizationResult, StandardAuthorizer
from barnabas.model.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal

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
    decision; the router sends no answer before that.
    """

    __slots__ = ("_authorizer", "_request", "decided", "forwarded_by", "host", "principal")

    def __init__(
        self,
        authorizer: StandardAuthorizer | None,
        principal: KafkaPrincipal,
        host: str,
        request: str,
        *,
        forwarded_by: KafkaPrincipal | None = None,
    ) -> None:
        """host: the client's IP as Java prints it (`model.addresses.host_text`); request: the API's name, `Fetch`;
        forwarded_by: the broker that vouches for the principal (KIP-590), None when the client asks itself."""
        self._authorizer = authorizer
        self._request = request
        self.principal = principal
        self.host = host
        self.forwarded_by = forwarded_by
        self.decided = False

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
        result = self._authorizer.authorize(self.principal, self.host, operation, resource_type, name)
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
        if _audit_log.isEnabledFor(logging.DEBUG):
            # The trail tells of the one question that Kafka's does.
            self.authorize(operation, resource_type, ANY_RESOURCE, audit_denied=False, references=0)
        return self._authorizer.authorize_by_resource_type(self.principal, self.host, operation, resource_type)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Give the operations that the principal may do to the resource, as an int32 bit field (KIP-430)."""
        self.decided = True
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.authorize(operation, resource_type, name, audit=False)
        )

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
