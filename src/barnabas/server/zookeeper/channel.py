"""A broker's way to the controller in ZooKeeper mode, where not every controller takes Envelopes (KIP-590).

A controller of ours does. Apache Kafka's closes a connection on which one comes, though it lists the API; and while
`inter.broker.protocol.version` is older than forwarding nobody forwards. A broker then does what Kafka's brokers do: it
writes configs, quotas, rules and tokens to ZooKeeper itself, and sends whoever wants more to the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.net.client import Channel, ChannelError
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.header import decode_request_header
from barnabas.wire.message import decode_from
from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.envelope import EnvelopeRequest
from barnabas.wire.refusals import refuse

if TYPE_CHECKING:
    from barnabas.net.client import ChannelSettings
    from barnabas.server.context import RequestContext
    from barnabas.server.forwarding.channel import ForwardingChannel
    from barnabas.server.forwarding.controller_channel import ActiveController, LocalChannel
    from barnabas.server.router import Answer
    from barnabas.server.zookeeper.metadata import ZooKeeperMetadata

log = structlog.get_logger("kafka.server.NodeToControllerChannelManager")

CONTROLLER_ONLY: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    }
)
"""What no other broker does; the answer elsewhere is NOT_CONTROLLER, and clients know who it is from Metadata."""


class ZooKeeperChannel:
    """A `ControllerChannel`; see the module."""

    def __init__(
        self,
        metadata: ZooKeeperMetadata,
        forwarding: ForwardingChannel,
        local: LocalChannel,
        settings: Callable[[], ChannelSettings],
        *,
        may_forward: bool,
    ) -> None:
        """settings: of a connection to the controller; may_forward: whether this broker is of an age to."""
        self._may_forward = may_forward
        self._metadata = metadata
        self._forwarding = forwarding
        self._local = local
        self._settings = settings
        self._asked: tuple[ActiveController, bool] | None = None
        self._asking = asyncio.Lock()

    def controller_versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Give what the controller speaks, where it is asked for clients; None while it is not known."""
        forwards = self._asked is not None and self._asked[1]
        return self._forwarding.controller_versions() if forwards else self._local.controller_versions()

    async def forward(self, ctx: RequestContext, frame: memoryview) -> Answer:
        """Have a client's request served: by the controller in the client's name, or by this broker."""
        if await self._forwards():
            answer = await self._while_it_forwards(self._forwarding.forward(ctx, frame))
            if answer is not None:
                return answer
        if ctx.row.key in CONTROLLER_ONLY and not self._metadata.is_active:
            _, body_at, _ = decode_request_header(frame)
            request, _ = decode_from(ctx.row.request, ctx.version, frame, body_at)
            return refuse(request, ctx.version, ErrorCode.NOT_CONTROLLER)
        return await self._local.forward(ctx, frame)

    async def call(self, request: Any, version: int, on_behalf: RequestContext | None = None) -> Any:
        """Have a request of this broker's own served by the controller, or one made for a client wherever that is."""
        if on_behalf is None:
            return await self._forwarding.call(request, version)
        if await self._forwards():
            answer = await self._while_it_forwards(self._forwarding.call(request, version, on_behalf))
            if answer is not None:
                return answer
        if isinstance(request, CreateTopicsRequest):
            return await self._created(request, version, on_behalf)
        return await self._local.call(request, version, on_behalf)

    async def _created(self, request: CreateTopicsRequest, version: int, ctx: RequestContext) -> CreateTopicsResponse:
        """Create topics that a client may have, in this broker's own name."""
        names = {topic.name for topic in request.topics}
        allowed = names
        if not ctx.authorize(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, audit_denied=False):
            allowed = ctx.authorize_many(AclOperation.CREATE, ResourceType.TOPIC, names)
        refused = [
            CreatableTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for name in sorted(names - allowed)
        ]
        request.topics = [topic for topic in request.topics if topic.name in allowed]
        if not request.topics:
            return CreateTopicsResponse(topics=refused)
        answer: CreateTopicsResponse = await self._forwarding.call(request, version)
        answer.topics += refused
        return answer

    async def _while_it_forwards(self, work: Coroutine[Any, Any, Any]) -> Any | None:
        """Give what the work gives; None, and it is given up, once a controller has the role that takes no Envelopes.

        A controller before it may have done what was asked: whoever asks again finds it done.
        """
        under_way, refused = asyncio.ensure_future(work), asyncio.ensure_future(self._forwards_no_more())
        try:
            await asyncio.wait({under_way, refused}, return_when=asyncio.FIRST_COMPLETED)
            return under_way.result() if under_way.done() else None
        finally:
            under_way.cancel()
            refused.cancel()

    async def _forwards_no_more(self) -> None:
        while await self._forwards():
            await self._metadata.controller_changed()

    async def _forwards(self) -> bool:
        """Say whether the controller of the moment takes Envelopes; each is asked once."""
        if not self._may_forward:
            return False
        controller = self._metadata.active_controller()
        if controller is None or self._metadata.is_active:
            return True  # it is waited for, or here
        async with self._asking:
            if self._asked is None or self._asked[0] != controller:
                takes = await self._takes_envelopes(controller)
                if takes is None:
                    return True  # not reached: whoever forwards tries again, and finds another one
                self._asked = controller, takes
            return self._asked[1]

    async def _takes_envelopes(self, controller: ActiveController) -> bool | None:
        """Send one that nobody can serve: any answer says that the next one is welcome. None when it is not reached."""
        try:
            channel = await Channel.open(controller.host, controller.port, self._settings())
        except ChannelError:
            return None
        try:
            await channel.call(EnvelopeRequest())
        except (ChannelError, ApiError):
            log.info("the controller takes no Envelopes: this broker changes itself what any broker may",
                     controller=controller.node_id, epoch=controller.epoch)  # fmt: skip
            return False
        finally:
            await channel.close()
        return True
