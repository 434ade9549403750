"""SaslAuthenticate v0-2 outside of a login: always ILLEGAL_SASL_STATE. KIP-152, KIP-368 (v1), v2 flexible.

The login itself is served by `server.network.authentication`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.router import ALWAYS_ALLOWED, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(SaslAuthenticateRequest, authz=ALWAYS_ALLOWED)
def sasl_authenticate(request: SaslAuthenticateRequest, ctx: RequestContext) -> SaslAuthenticateResponse:
    """Refuse."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="No login is under way on this connection"
    )
