"""Envelope v0-1: serves a request that a broker forwards, in the name of the client that made it. KIP-590, KIP-801.

Errors at the top concern the two nodes: CLUSTER_AUTHORIZATION_FAILED when the sender may not forward, NOT_CONTROLLER
when another node is to be asked, AUTHORIZER_NOT_READY (since v1; UNKNOWN_SERVER_ERROR in v0) while this one does not
know its rules, PRINCIPAL_DESERIALIZATION_FAILURE, INVALID_REQUEST and UNSUPPORTED_VERSION when what is inside cannot
be served. All else is the client's business and stays inside.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, Final

import structlog

from barnabas.core.forwarding.envelope import Inner, unwrap
from barnabas.core.forwarding.outcome import from_wrong_node
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.model.addresses import host_text
from barnabas.server.authorization import Authz
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.router import BY_HANDLER, Answer, Router, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.refusals import refuse

log = structlog.get_logger("kafka.server.Envelope")
_TELLS_NOT_READY: Final = 1
"""The first version whose answer may be AUTHORIZER_NOT_READY (KIP-801)."""


@handles(EnvelopeRequest, authz=BY_HANDLER)
async def envelope(request: EnvelopeRequest, ctx: RequestContext) -> EnvelopeResponse:
    """Serve what is inside, if the sender has CLUSTER_ACTION and this node is the active controller."""
    try:
        response = EnvelopeResponse(response_data=await _served(request, ctx))
    except ApiError as e:
        code = e.code
        if not ctx.authz.was_ready or code is ErrorCode.AUTHORIZER_NOT_READY:
            code = ErrorCode.AUTHORIZER_NOT_READY if ctx.version >= _TELLS_NOT_READY else ErrorCode.UNKNOWN_SERVER_ERROR
        # An empty one of a broker only asks whether Envelopes are taken.
        asks = code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE and not request.request_data
        (log.debug if asks else log.info)(
            "Envelope refused", error=code.name, why=e.message, sender=str(ctx.principal), host=ctx.host
        )
        response = EnvelopeResponse(error_code=code)
    return response


async def _served(request: EnvelopeRequest, ctx: RequestContext) -> bytes:
    if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the sender has no CLUSTER_ACTION on the cluster")
    inner = unwrap(request, ctx.node.principals.serde)
    router = ctx.node.controller_router
    if router is None or not router.serves(inner.row):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{inner.row.key.name} is not served here")
    inside = _context(inner, ctx, len(request.request_data))
    if not inside.authz.is_ready():
        raise _not_ready(inner)
    if not ctx.node.controller.is_active:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    answer = await _asked(router, inner.request, inside)
    if not inside.authz.is_ready():
        raise _not_ready(inner)
    ctx.waited_ns += inside.waited_ns
    if from_wrong_node(inner.row.key, answer):
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    parts = router.encode(inside, answer)
    frame = b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))
    inside.stats.answered(inside, perf_counter_ns(), len(frame))
    return frame[4:]


async def _asked(router: Router, request: Any, inside: RequestContext) -> Answer:
    try:
        return await router.serve_message(request, inside)
    except ApiError as e:
        return refuse(request, inside.version, e.code, e.message)


def _not_ready(inner: Inner) -> ApiError:
    return ApiError(ErrorCode.AUTHORIZER_NOT_READY, f"the rules for {inner.principal} are not known yet")


def _context(inner: Inner, ctx: RequestContext, size: int) -> RequestContext:
    node, outer, host = ctx.node, ctx.connection, host_text(inner.host)
    connection = ClientConnection(
        outer.id, host, 0, outer.listener_name, outer.security_protocol, inner.principal, privileged=outer.privileged
    )
    return RequestContext(
        node=node,
        connection=connection,
        row=inner.row,
        version=inner.header.request_api_version,
        correlation_id=inner.header.correlation_id,
        client_id=inner.header.client_id,
        authz=Authz(
            node.authorizer(),
            inner.principal,
            host,
            inner.row.name,
            forwarded_by=ctx.principal,
            connection=connection,
            client_id=inner.header.client_id,
        ),
        forwarded_by=ctx.principal,
        size=size,
        stats=node.metrics.requests.forwarded[inner.row.key],
        started_ns=ctx.started_ns,
    )
