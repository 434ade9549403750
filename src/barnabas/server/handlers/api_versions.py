"""ApiVersions v0-4 (v3 flexible, names the client and tells features). KIP-35, KIP-511, KIP-584."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from barnabas.core.forwarding.api_versions import offered
from barnabas.server.router import ALWAYS_ALLOWED, Router, handles
from barnabas.wire.api_keys import PRODUCE_ADVERTISED_MIN_VERSION, ApiKey, ApiRow
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

_Versions = Mapping[int, tuple[int, int]]
_KNOWN: Final[WeakKeyDictionary[Router, tuple[_Versions | None, list[ApiVersion]]]] = WeakKeyDictionary()
"""What was answered last by each router, and for which versions of the controller."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiVersionsRequest, authz=ALWAYS_ALLOWED)
def api_versions(request: ApiVersionsRequest, ctx: RequestContext) -> ApiVersionsResponse:
    """List what this listener serves, from the router itself."""
    if ctx.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        ctx.connection.software_name, ctx.connection.software_version = name, version
    node = ctx.node
    supported = [
        SupportedFeatureKey(name=f.name, min_version=f.min_version, max_version=f.max_version)
        for f in node.supported_features()
        if ctx.version >= 4 or f.min_version > 0  # v3 cannot carry a lowest version of 0
    ]
    return ApiVersionsResponse(
        api_keys=_offered(ctx),
        supported_features=supported if ctx.version >= 3 else [],
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(node.finalized_features().items())
        ]
        if ctx.version >= 3
        else [],
        finalized_features_epoch=node.image().offset_epoch.offset if ctx.version >= 3 else -1,
    )


def _offered(ctx: RequestContext) -> list[ApiVersion]:
    """Give what is served here; of what is forwarded, what the active controller serves as well (KIP-590).

    Every connection asks, and the answer changes with the controller's software only.
    """
    router = ctx.node.router_of(ctx.listener_name)
    controller = ctx.node.channel.controller_versions() if router.forwarded_rows else None
    known = _KNOWN.get(router)
    if known is None or known[0] != controller:
        known = _KNOWN[router] = controller, _versions(router, controller)
    return known[1]


def _versions(router: Router, controller: _Versions | None) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=row.key, min_version=_lowest(row, versions.lowest), max_version=versions.highest)
        for row, versions in offered(router.rows, router.forwarded_rows, controller)
    ]


def _lowest(row: ApiRow, lowest: int) -> int:
    # As Kafka does: older librdkafka takes a broker without Produce v0 for one that cannot compress (KIP-896).
    return PRODUCE_ADVERTISED_MIN_VERSION if row.key is ApiKey.PRODUCE else lowest
