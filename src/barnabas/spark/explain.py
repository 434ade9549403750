"""Errors as a user of Spark sees them: what was refused, to whom, and what would allow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from barnabas.client.config import ClientConfig
from barnabas.client.transaction_errors import TransactionTimeoutError
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.config import ConfigError
from barnabas.net.client import ChannelError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError


class SourceError(Exception):
    """A read or write that failed; the message is meant for the one who wrote the query."""


class DataLossError(SourceError):
    """Offsets that were to be read are gone."""

    @classmethod
    def about(cls, what: str) -> DataLossError:
        """Give the error, with the option that turns it off."""
        return cls(
            f"{what}. Some records may have been deleted by retention, or the topic was deleted and made anew. "
            "To go on without them, set the option failOnDataLoss to false"
        )


class RefusedError(ApiError):
    """A node's refusal, with the name of the topic or group it is about. prefix: what its like all begin with."""

    def __init__(self, code: ErrorCode, resource: str, prefix: str | None = None) -> None:
        super().__init__(code, f"{resource}: {code.message}")
        self.resource = resource
        self.prefix = prefix


@contextmanager
def about(resource: str, prefix: str | None = None) -> Iterator[None]:
    """Add to a refusal what it is about. prefix: of a resource that is one of many, for which one ACL is enough."""
    try:
        yield
    except RefusedError:
        raise
    except ApiError as error:
        raise RefusedError(error.code, resource, prefix) from error


_RESOURCES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResourceType.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ResourceType.GROUP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ResourceType.TRANSACTIONAL_ID,
    # Who may write to no topic at all is refused a producer id, in the cluster's name; a rule on the topic cures it.
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResourceType.TOPIC,
}
_NEEDED: Final = {ResourceType.GROUP: AclOperation.READ, ResourceType.TRANSACTIONAL_ID: AclOperation.WRITE}
"""What is done here to what is no topic."""


@contextmanager
def explained(config: ClientConfig, operation: AclOperation) -> Iterator[None]:
    """Turn what the client raises into a SourceError; operation: what is done to topics here, READ or WRITE."""
    try:
        yield
    except ApiError as error:
        raise SourceError(_about_refusal(error, config, operation)) from error
    except ChannelError as error:
        raise SourceError(f"{_servers(config)}: {error} (as {principal(config)})") from error
    except (ConfigError, ProtocolError, TransactionTimeoutError) as error:
        raise SourceError(f"{_servers(config)}: {error}") from error


def principal(config: ClientConfig) -> str:
    """Give who the nodes will take this client for, as far as the client can know."""
    sasl = config.sasl
    if sasl is not None:
        return f"User:{sasl.username}"
    if config.by_bearer_token:
        return "the user whom the token names"
    if config.by_ticket:
        return "the user whom the nodes know the ticket's owner by"
    return "the principal of this client's certificate" if config.uses_tls else "User:ANONYMOUS"


def _about_refusal(error: ApiError, config: ClientConfig, operation: AclOperation) -> str:
    kind = _RESOURCES.get(error.code)
    if not isinstance(error, RefusedError):
        return f"{_servers(config)}: {error.code.name}: {error}"
    resource = error.resource
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"{_servers(config)}: topic {resource} does not exist"
    if kind is None:
        return f"{_servers(config)}: {error.code.name}: {error}"
    needed = _NEEDED.get(kind, operation)
    who = principal(config)
    flag = f"--{kind.name.lower().replace('_', '-')} {error.prefix or resource}"
    pattern = "" if error.prefix is None else " --resource-pattern-type prefixed"
    allowed = who if who.startswith("User:") else "User:NAME"
    return (
        f"{_servers(config)}: {who} is not allowed to {needed.name} {kind.name} {resource}. "
        f"It needs an ACL that allows {needed.name} on {kind.name} {resource}; an administrator adds it with: "
        f"barnabas acls --add --allow-principal {allowed} --operation {needed.name}{pattern} {flag}"
    )


def _servers(config: ClientConfig) -> str:
    return config.properties.get("bootstrap.servers", "the cluster")
