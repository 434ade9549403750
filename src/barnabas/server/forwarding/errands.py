"""What a broker asks of the active controller, each in the two ways it can be asked: in this process, or over a
connection. What is common to both, and who sends again when, is `server.forwarding.channel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.forwarding.envelope import wrap
from barnabas.core.forwarding.outcome import Verdict, from_wrong_node, verdict_on
from barnabas.core.forwarding.principal import KafkaPrincipalSerde
from barnabas.net.client import Channel
from barnabas.wire.api_keys import API_KEYS, ApiRow
from barnabas.wire.errors import ProtocolError
from barnabas.wire.header import RequestHeader, decode_response_header, encode_request_header
from barnabas.wire.message import decode, encode_into
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.primitives import Records

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.server.context import RequestContext
    from barnabas.server.forwarding.controller_channel import LocalChannel

ENVELOPE_VERSION: Final = 1
"""The newest; a controller that does not know it, as Kafka's, gets what both know (KIP-801)."""


class Errand(ABC):
    """One thing to ask. times_sent counts the attempts that may have reached a controller."""

    def __init__(self, row: ApiRow, client_id: str | None) -> None:
        self.row = row
        self.client_id = client_id
        self.times_sent = 0
        self.first_seen: MetadataImage | None = None
        """The metadata as this node knew it just before the first attempt."""
        self.deadline: float | None = None
        """When its time is up, by the loop's clock; None while that is not known, or never."""

    @abstractmethod
    async def here(self, local: LocalChannel) -> Any:
        """Ask the controller of this process; gives the response."""

    @abstractmethod
    async def there(self, channel: Channel, timeout_ms: int) -> Any:
        """Ask over a connection; gives the response, or the Envelope's. ChannelError when there is none."""

    @abstractmethod
    def from_wrong_node(self, answer: Any) -> bool:
        """Say whether the one that answered is not the active controller."""


class OwnErrand(Errand):
    """A request of this node's own. version: the newest that may be used; a controller may speak older ones only."""

    def __init__(self, request: Any, version: int) -> None:
        super().__init__(API_KEYS[request.API_KEY], None)
        self._request = request
        self._version = version

    async def here(self, local: LocalChannel) -> Any:
        """See Errand."""
        return await local.call(self._request, self._version)

    async def there(self, channel: Channel, timeout_ms: int) -> Any:
        """See Errand."""
        return await channel.call(self._request, max_version=self._version, timeout_ms=timeout_ms)

    def from_wrong_node(self, answer: Any) -> bool:
        """See Errand."""
        return from_wrong_node(self.row.key, answer)


class EnvelopeErrand(Errand):
    """A request that a client sent: its bytes go to the controller as they came."""

    def __init__(self, ctx: RequestContext, frame: memoryview, serde: KafkaPrincipalSerde) -> None:
        super().__init__(ctx.row, ctx.client_id)
        self._ctx = ctx
        self._frame = frame
        self.version = ctx.version
        self._envelope: EnvelopeRequest | None = None
        self._serde = serde

    async def here(self, local: LocalChannel) -> Any:
        """See Errand."""
        return await local.serve(self._ctx, self._frame)

    async def there(self, channel: Channel, timeout_ms: int) -> Any:
        """See Errand."""
        if self._envelope is None:
            self._envelope = wrap(self._frame, self._ctx.principal, self._ctx.host, self._serde)
        return await channel.call(self._envelope, max_version=ENVELOPE_VERSION, timeout_ms=timeout_ms)

    def from_wrong_node(self, answer: Any) -> bool:
        """See Errand."""
        return _from_wrong_node(self.row, self.version, answer)


class ErrandForClient(Errand):
    """A request that this node makes in the name of a client that did not send it itself: it asked for a topic."""

    def __init__(self, request: Any, version: int, ctx: RequestContext, serde: KafkaPrincipalSerde) -> None:
        super().__init__(API_KEYS[request.API_KEY], ctx.client_id)
        self._request = request
        self._ctx = ctx
        self._serde = serde
        self.version = version

    async def here(self, local: LocalChannel) -> Any:
        """See Errand."""
        return await local.call(self._request, self.version, self._ctx)

    async def there(self, channel: Channel, timeout_ms: int) -> Any:
        """See Errand."""
        self.version = channel.versions(self._request, max_version=self.version)
        envelope = wrap(self._encoded(), self._ctx.principal, self._ctx.host, self._serde)
        return await channel.call(envelope, max_version=ENVELOPE_VERSION, timeout_ms=timeout_ms)

    def from_wrong_node(self, answer: Any) -> bool:
        """See Errand."""
        return _from_wrong_node(self.row, self.version, answer)

    def _encoded(self) -> bytes:
        header = RequestHeader(
            request_api_key=self.row.key,
            request_api_version=self.version,
            correlation_id=self._ctx.correlation_id,
            client_id=self._ctx.client_id,
        )
        parts: list[Records] = []
        encode_request_header(header, parts)
        encode_into(self._request, self.version, parts)
        return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


def inner_response(row: ApiRow, version: int, frame: bytes) -> Any:
    """Give the response that stands inside an Envelope's; ProtocolError when it cannot be read."""
    _, body_at = decode_response_header(int(row.key), version, frame)
    return decode(row.response, version, frame, body_at)


def _from_wrong_node(row: ApiRow, version: int, answer: Any) -> bool:
    if not isinstance(answer, EnvelopeResponse):
        return from_wrong_node(row.key, answer)
    verdict = verdict_on(answer.error_code)
    if verdict is not Verdict.RELAY or answer.response_data is None:
        return verdict is Verdict.SEND_AGAIN
    try:
        # Kafka's controllers before 4.0 left it inside (KAFKA-12677), and some quorum errors always are.
        return from_wrong_node(row.key, inner_response(row, version, bytes(answer.response_data)))
    except ProtocolError:
        return False
