"""A user of a test cluster: the configurations to connect with, and the rules about it."""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

from barnabas.client.config import ClientConfig
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.config import parse_properties
from barnabas.server.dev_node import client_texts

_TYPES: Final = {t.name.lower(): t for t in ResourceType}


class Home(Protocol):
    """The cluster that a user belongs to."""

    @property
    def bootstrap(self) -> str:
        """Give host:port for clients."""
        ...

    @property
    def ca(self) -> str | None:
        """Give the path of the certificate that clients trust; None where nothing is encrypted."""
        ...

    def create_acl(self, binding: AclBinding) -> None:
        """Add one rule."""


class User:
    """Who connects. The configurations differ only in how each family of clients spells them."""

    def __init__(self, home: Home, name: str, password: str) -> None:
        self._home = home
        self.name = name
        self.password = password

    def __repr__(self) -> str:
        return f"User({self.principal})"

    @property
    def principal(self) -> str:
        """Give the name that ACLs know."""
        return f"User:{self.name}"

    def _texts(self) -> dict[str, str]:
        return client_texts(self._home.bootstrap, self._home.ca, self.name, self.password)

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Give the settings for confluent-kafka and kcat."""
        return dict(parse_properties(self._texts()["librdkafka"]))

    @property
    def java(self) -> dict[str, str]:
        """Give the settings for Java's clients and Kafka's tools."""
        return parse_properties(self._texts()["java"])

    @property
    def java_text(self) -> str:
        """Give those as the text of a `client.properties`."""
        return self._texts()["java"]

    @property
    def kafka_python(self) -> dict[str, Any]:
        """Give the keyword arguments for kafka-python's clients."""
        return dict(json.loads(self._texts()["python"]))

    @property
    def aiokafka(self) -> dict[str, Any]:
        """Give the keyword arguments for aiokafka's clients (needs `ssl_context`, made here)."""
        import ssl

        arguments = self.kafka_python
        arguments["ssl_context"] = ssl.create_default_context(cafile=arguments.pop("ssl_cafile"))
        return arguments

    @property
    def barnabas(self) -> ClientConfig:
        """Give the configuration for Barnabas's own client."""
        return ClientConfig.from_properties(self.java)

    def allow(self, operation: str, resource: str, name: str, *, prefixed: bool = False, host: str = "*") -> User:
        """Grant, for example `allow("read", "topic", "orders")`; gives the user again."""
        return self._rule(AclPermissionType.ALLOW, operation, resource, name, prefixed, host)

    def deny(self, operation: str, resource: str, name: str, *, prefixed: bool = False, host: str = "*") -> User:
        """Refuse, whatever is granted elsewhere; gives the user again."""
        return self._rule(AclPermissionType.DENY, operation, resource, name, prefixed, host)

    def _rule(
        self, permission: AclPermissionType, operation: str, resource: str, name: str, prefixed: bool, host: str
    ) -> User:
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        binding = AclBinding(
            ResourcePattern(_TYPES[resource.lower()], name, pattern),
            self.principal,
            host,
            AclOperation[operation.upper()],
            permission,
        )
        self._home.create_acl(binding)
        return self
