"""UpdateFeatures v0-2 (v1 validate only and kinds of downgrade, v2 one error for all). KIP-584, KIP-1022."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.feature_changes import UpgradeType
from barnabas.core.metadata.feature_changes import update_features as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(UpdateFeaturesRequest, authz=on_cluster(AclOperation.ALTER))
async def update_features(req: UpdateFeaturesRequest, ctx: RequestContext) -> UpdateFeaturesResponse:
    """Change the levels of features, all or none."""
    updates: dict[str, tuple[int, UpgradeType]] = {}
    for update in req.feature_updates:
        # Version 0 knows no kinds; its allow_downgrade is passed over, as in Kafka: the default stands.
        updates[update.feature] = (update.max_version_level, UpgradeType.of(update.upgrade_type))
    config, driver = ctx.node.config, ctx.node.replica

    def upgrade_kraft(level: int, validate_only: bool) -> None:
        try:
            driver.upgrade_kraft_version(level, validate_only=validate_only)
        except ValueError as e:
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, str(e)) from e

    error = await ctx.node.controller.write(
        lambda image: decide(
            image,
            updates,
            node_id=config.node_id,
            voters=driver.node.control.voters.last.value.node_ids,
            kraft_version=driver.kraft_version,
            upgrade_kraft=upgrade_kraft,
            static_min_insync_replicas=config["min.insync.replicas"],
            validate_only=req.validate_only,
        )
    )
    return _response(req, ctx, error)


def _response(req: UpdateFeaturesRequest, ctx: RequestContext, error: ApiError | None) -> UpdateFeaturesResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    response = UpdateFeaturesResponse(error_code=code, error_message=message, throttle_time_ms=ctx.throttle_ms)
    if ctx.version < 2 and error is None:
        # Kafka's text for success, which only this old form of the answer shows.
        text = ErrorCode.NONE.name
        response.results = [UpdatableFeatureResult(feature=u.feature, error_message=text) for u in req.feature_updates]
    return response
