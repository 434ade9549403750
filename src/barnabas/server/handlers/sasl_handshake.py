"""SaslHandshake v0-1 outside of a login: always ILLEGAL_SASL_STATE. KIP-43, KIP-152.

The login itself is served by `server.network.authentication`; here come the handshakes on listeners without SASL, and
those after a login whose session has no end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.router import ALWAYS_ALLOWED, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(SaslHandshakeRequest, authz=ALWAYS_ALLOWED)
def sasl_handshake(request: SaslHandshakeRequest, ctx: RequestContext) -> SaslHandshakeResponse:
    """Refuse."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
