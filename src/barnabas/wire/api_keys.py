"""One row per API: its number, versions, listeners, and whether brokers forward it to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Final, Literal

from barnabas.wire.api_rows import FACTS, ApiKey
from barnabas.wire.declaration import Message

__all__ = ["API_KEYS", "PRODUCE_ADVERTISED_MIN_VERSION", "ApiKey", "ApiRow", "ListenerType", "row_of"]

ListenerType = Literal["broker", "controller", "zkBroker"]
PRODUCE_ADVERTISED_MIN_VERSION: Final = 0
"""What ApiVersions says on a broker's listener: librdkafka gives up when it sees more (KAFKA-18659)."""


@dataclass(frozen=True)
class ApiRow:
    """An API. max_version: the latest stable one; latest_version: the unstable one above it, if there is one.

    request_flexible, response_flexible: first flexible version; forwardable: a broker passes it to the active
    controller (KIP-590); cluster_action: only nodes of the cluster send it. The message classes are imported
    when first asked for, so that a process pays for what it uses.
    """

    key: ApiKey
    name: str
    module: str
    min_version: int
    max_version: int
    latest_version: int
    request_flexible: int
    response_flexible: int
    listeners: frozenset[ListenerType]
    forwardable: bool
    cluster_action: bool

    @cached_property
    def request(self) -> type[Message]:
        """Give the class of the request."""
        return self._message("Request")

    @cached_property
    def response(self) -> type[Message]:
        """Give the class of the response."""
        return self._message("Response")

    def request_header_version(self, version: int) -> int:
        """Give the version of the header before a request of that version."""
        if version >= self.request_flexible:
            return 2
        return 0 if self.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1

    def response_header_version(self, version: int) -> int:
        """Give the version of the header before a response of that version; ApiVersions keeps 0 (KIP-511)."""
        return 1 if version >= self.response_flexible and self.key is not ApiKey.API_VERSIONS else 0

    def supports(self, version: int, *, unstable: bool = False) -> bool:
        """Whether we speak that version; unstable: the latest unstable one counts as well."""
        return self.min_version <= version <= (self.latest_version if unstable else self.max_version)

    def _message(self, side: str) -> type[Message]:
        made: type[Message] = getattr(import_module(f"barnabas.wire.messages.{self.module}"), self.name + side)
        return made


API_KEYS: Final[Mapping[int, ApiRow]] = MappingProxyType(
    {int(f.key): ApiRow(**{**f._asdict(), "listeners": frozenset(f.listeners)}) for f in FACTS}
)
"""Every API by its number."""


def row_of(msg: Message | type[Message]) -> ApiRow:
    """Give the row of a request or response."""
    return API_KEYS[msg.API_KEY]
