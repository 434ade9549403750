"""Says which nodes this controller does not let take part, and as whom it knows them: once for each.

A principal that is spelled differently in `super.users` than it is seen here (a certificate's name, ANONYMOUS on a
listener without login) would otherwise show as elections without end on other nodes, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from barnabas.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

log = structlog.get_logger("kafka.server.ControllerApis")

_AMONG_VOTERS: Final = frozenset({ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH})
_MOST: Final = 10_000


class RefusedPeers:
    """See the module."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def refused(self, ctx: RequestContext) -> None:
        """Take note that somebody was refused CLUSTER_ACTION.

        Brokers are let in by ACLs as well, so that nothing is said of one while the ACLs are not loaded.
        """
        if not ctx.privileged or not (ctx.authz.was_ready or ctx.row.key in _AMONG_VOTERS):
            return
        peer = str(ctx.principal), ctx.host
        if peer in self._told or len(self._told) >= _MOST:
            return
        self._told.add(peer)
        log.error(
            "a peer is refused: its principal may not take part in the cluster",
            principal=peer[0],
            host=ctx.host,
            api=ctx.row.key.name,
            listener=ctx.listener_name,
            remedy=f"if this is one of the cluster's nodes, add {peer[0]} to super.users on every node, spelled "
            "exactly so, or give it CLUSTER_ACTION on the cluster",
        )
