"""UpdateFeatures v0-2 in ZooKeeper mode, where each feature has an answer of its own. KIP-584."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.feature_changes import UpgradeType
from barnabas.core.zookeeper.feature_changes import Update
from barnabas.core.zookeeper.feature_changes import update_features as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(UpdateFeaturesRequest, authz=on_cluster(AclOperation.ALTER))
async def update_zookeeper_features(req: UpdateFeaturesRequest, ctx: RequestContext) -> UpdateFeaturesResponse:
    """Take features away, and say why all else cannot be."""
    updates = [Update(one.feature, one.max_version_level, _kind(one, ctx.version)) for one in req.feature_updates]
    answer = await ctx.node.controller.write(lambda image: decide(image, updates, validate_only=req.validate_only))
    response = UpdateFeaturesResponse(error_message=None, throttle_time_ms=ctx.throttle_ms)
    for name, error in answer.items():
        code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
        if ctx.version < 2:
            response.results.append(UpdatableFeatureResult(feature=name, error_code=code, error_message=message))
        elif not response.error_code:  # which has room for one; Kafka 3.9 does not know this version
            response.error_code, response.error_message = code, message
    return response


def _kind(update: FeatureUpdateKey, version: int) -> UpgradeType:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType.of(update.upgrade_type)
