"""The way from a broker to the active controller.

While both are one process a request goes straight to the controller's router, with the client's own principal and
address, as an Envelope would carry it (KIP-590); handlers on either side cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.server.authorization import Authz
from barnabas.server.context import ClientConnection, RequestContext, Services
from barnabas.server.forwarding.configs import CONFIG_APIS, forward_config_changes
from barnabas.server.request_metrics import REQUEST_NAMES
from barnabas.server.router import Answer, Router
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.header import decode_request_header
from barnabas.wire.message import decode_from


class ActiveController(NamedTuple):
    """Who leads the metadata quorum, and where its controller listener is."""

    node_id: int
    epoch: int
    host: str
    port: int


class ControllerChannel(Protocol):
    """The way to whichever node is the active controller at the moment."""

    def controller_versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Give what the active controller speaks, lowest and highest version by API; None while none is known."""
        ...

    async def forward(self, ctx: RequestContext, frame: memoryview) -> Answer:
        """Have a client's request served at the controller, in the client's name; the answer is the controller's."""
        ...

    async def call(self, request: Any, version: int, on_behalf: RequestContext | None = None) -> Any:
        """Have a request of this node's own served, or one made for a client, whose principal is asked about then."""
        ...


class LocalChannel:
    """The controller in this very process."""

    def __init__(self, node: Services, router: Router) -> None:
        self._node = node
        self._router = router

    def controller_versions(self) -> Mapping[int, tuple[int, int]]:
        """Give what our own controller speaks."""
        return self._router.versions

    async def forward(self, ctx: RequestContext, frame: memoryview) -> Answer:
        """Serve a client's request at the controller, in the client's name; the answer is the controller's."""
        if ctx.row.key in CONFIG_APIS:
            return await forward_config_changes(ctx, frame, self.serve)
        return await self.serve(ctx, frame)

    async def serve(self, ctx: RequestContext, frame: memoryview) -> Answer:
        """Serve at the controller what a broker has nothing to do with itself."""
        _, body_at, _ = decode_request_header(frame)
        request, _ = decode_from(ctx.row.request, ctx.version, frame, body_at)
        inner = RequestContext(
            node=self._node,
            connection=ctx.connection,
            row=ctx.row,
            version=ctx.version,
            correlation_id=ctx.correlation_id,
            client_id=ctx.client_id,
            authz=Authz(
                self._node.authorizer(),
                ctx.principal,
                ctx.host,
                REQUEST_NAMES[int(ctx.row.key)],
                forwarded_by=self._node.principal,
                connection=ctx.connection,
                client_id=ctx.client_id,
            ),
            forwarded_by=self._node.principal,
        )
        answer = await self._router.serve_message(request, inner)
        ctx.throttle_ms = max(ctx.throttle_ms, inner.throttle_ms)
        return answer

    async def call(self, request: Any, version: int, on_behalf: RequestContext | None = None) -> Any:
        """Serve a request of this node's own, or one made for a client, whose principal is asked about then."""
        row = API_KEYS[request.API_KEY]
        if on_behalf is None:
            principal, authorizer = self._node.principal, None
            connection = ClientConnection("internal", "127.0.0.1", 0, "", "", principal, privileged=True)
        else:
            principal, authorizer = on_behalf.principal, self._node.authorizer()
            connection = on_behalf.connection
        ctx = RequestContext(
            node=self._node,
            connection=connection,
            row=row,
            version=version,
            correlation_id=0,
            client_id=on_behalf.client_id if on_behalf else None,
            authz=Authz(
                authorizer,
                principal,
                connection.host,
                REQUEST_NAMES[int(row.key)],
                forwarded_by=self._node.principal if on_behalf else None,
                connection=connection,
                client_id=on_behalf.client_id if on_behalf else None,
            ),
            forwarded_by=self._node.principal if on_behalf else None,
        )
        return await self._router.serve_message(request, ctx)
