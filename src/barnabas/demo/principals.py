"""Who may do what in the demonstration: a writer, a reader and a stranger, each with no more than it needs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
    ResourcePattern,
    ResourceType,
)
from barnabas.model.config import Password, format_properties
from barnabas.wire.errors import ApiError, ErrorCode

WRITER: Final = "flights-writer"
READER: Final = "flights-reader"
STRANGER: Final = "stranger"
GROUP: Final = "flights-lake"
MECHANISM: Final = "SCRAM-SHA-512"
RULES: Final = (
    (WRITER, AclOperation.WRITE, ResourceType.TOPIC, flights.TOPIC),
    (READER, AclOperation.READ, ResourceType.TOPIC, flights.TOPIC),
    (READER, AclOperation.READ, ResourceType.GROUP, GROUP),
)
"""All that is allowed. READ and WRITE include DESCRIBE; the stranger has an account and no rule at all."""


def prepare(node: DemoNode, folder: Folder) -> None:
    """Make topic, users, rules and client files, as far as they are not there; DemoError when one is refused."""
    for user in (WRITER, READER, STRANGER):
        _write_client_file(node, folder.client_file(user), user)
    asyncio.run(_prepare(node.admin, folder))


async def _prepare(config: ClientConfig, folder: Folder) -> None:
    async with Admin(config) as admin:
        made = await admin.create_topics([NewTopic(flights.TOPIC, partitions=flights.PARTITIONS)])
        _check("topic", {name: e for name, e in made.items() if e is None or not _exists(e)})
        users = [
            ScramUpsertion(user, MECHANISM, Password(load_properties_file(folder.client_file(user))["sasl.password"]))
            for user in (WRITER, READER, STRANGER)
        ]
        _check("user", await admin.alter_scram(users))
        bindings = [
            AclBinding(
                ResourcePattern(resource_type, name), f"User:{user}", WILDCARD, operation, AclPermissionType.ALLOW
            )
            for user, operation, resource_type, name in RULES
        ]
        _check("rule", dict(zip(map(str, bindings), await admin.create_acls(bindings), strict=True)))


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
