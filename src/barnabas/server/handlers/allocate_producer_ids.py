"""AllocateProducerIds v0: a block of producer ids for a broker. KIP-730."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.producer_ids import ProducerIdsBlock, allocate
from barnabas.core.metadata.registrations import check_broker_epoch
from barnabas.core.replicated import Decision
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AllocateProducerIdsRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def allocate_producer_ids(req: AllocateProducerIdsRequest, ctx: RequestContext) -> AllocateProducerIdsResponse:
    """Give the broker ids that nobody else gets."""

    def decide(image: MetadataImage) -> Decision[ProducerIdsBlock]:
        check_broker_epoch(image, req.broker_id, req.broker_epoch)
        return allocate(image.producer_ids, req.broker_id, req.broker_epoch)

    block = await ctx.node.controller.write(decide)
    return AllocateProducerIdsResponse(
        producer_id_start=block.start, producer_id_len=block.size, throttle_time_ms=ctx.throttle_ms
    )
