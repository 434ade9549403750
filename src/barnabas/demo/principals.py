"""Who may do what in the demonstration: each has an account of its own, and no more rights than it needs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.config import ClientConfig, load_properties_file
from barnabas.demo import flights
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError, DemoNode
from barnabas.model.acl import (
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.config import Password, format_properties
from barnabas.wire.errors import ApiError, ErrorCode

WRITER: Final = "flights-writer"
READER: Final = "flights-reader"
WORKER: Final = "connect-worker"
STRANGER: Final = "stranger"
USERS: Final = (WRITER, READER, WORKER, STRANGER)
CONNECTOR: Final = "flights-to-lake"
GROUP: Final = f"connect-{CONNECTOR}"
"""Of the connector's tasks, which share the topic's partitions; the name is Kafka Connect's choice."""
WORKERS: Final = "connect-cluster"
"""Of the workers, which share the tasks; their internal topics' names begin with it."""
MECHANISM: Final = "SCRAM-SHA-512"


class Rule(NamedTuple):
    """A user may do something with what is called so, or, if `prefixed`, with all whose names begin so."""

    user: str
    operation: AclOperation
    kind: ResourceType
    name: str
    prefixed: bool = False

    def __str__(self) -> str:
        name = f"{self.name}*" if self.prefixed else self.name
        return f"User:{self.user} may {self.operation.name} {self.kind.name} {name}"

    @property
    def binding(self) -> AclBinding:
        """Give the rule as the node takes it."""
        pattern = ResourcePattern(self.kind, self.name, PatternType.PREFIXED if self.prefixed else PatternType.LITERAL)
        return AclBinding(pattern, f"User:{self.user}", WILDCARD, self.operation, AclPermissionType.ALLOW)


_INTERNAL: Final = (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
RULES: Final = (
    Rule(WRITER, AclOperation.WRITE, ResourceType.TOPIC, flights.TOPIC),
    Rule(READER, AclOperation.READ, ResourceType.TOPIC, flights.TOPIC),
    Rule(READER, AclOperation.READ, ResourceType.GROUP, GROUP),
    *(Rule(WORKER, operation, ResourceType.TOPIC, f"{WORKERS}-", prefixed=True) for operation in _INTERNAL),
    Rule(WORKER, AclOperation.READ, ResourceType.GROUP, WORKERS),
)
"""All that is allowed. READ and WRITE include DESCRIBE; the stranger has an account and no rule at all."""


def prepare(node: DemoNode, folder: Folder) -> None:
    """Make topic, users, rules and client files, as far as they are not there; DemoError when one is refused."""
    for user in USERS:
        _write_client_file(node, folder.client_file(user), user)
    asyncio.run(_prepare(node.admin, folder))


async def _prepare(config: ClientConfig, folder: Folder) -> None:
    async with Admin(config) as admin:
        made = await admin.create_topics([NewTopic(flights.TOPIC, partitions=flights.PARTITIONS)])
        _check("topic", {name: e for name, e in made.items() if e is None or not _exists(e)})
        users = [
            ScramUpsertion(user, MECHANISM, Password(load_properties_file(folder.client_file(user))["sasl.password"]))
            for user in USERS
        ]
        _check("user", await admin.alter_scram(users))
        made_rules = await admin.create_acls([rule.binding for rule in RULES])
        _check("rule", dict(zip(map(str, RULES), made_rules, strict=True)))


def _exists(error: ApiError) -> bool:
    return error.code is ErrorCode.TOPIC_ALREADY_EXISTS


def _check(what: str, results: Mapping[str, ApiError | None]) -> None:
    for name, error in results.items():
        if error is not None:
            raise DemoError(f"the {what} {name} could not be made: {error}")


def _write_client_file(node: DemoNode, path: Path, user: str) -> None:
    """Write a user's client settings; a password that exists is kept, since a killed run may have set it."""
    password = load_properties_file(path)["sasl.password"] if path.exists() else secrets.token_urlsafe(24)
    settings = load_properties_file(node.admin_file) | {
        "bootstrap.servers": node.bootstrap,
        "sasl.username": user,
        "sasl.password": password,
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(format_properties(settings), encoding="utf-8")
    fresh.replace(path)
