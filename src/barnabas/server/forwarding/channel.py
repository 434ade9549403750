"""The way to the active controller, wherever it is: KIP-590's forwarding, and a broker's own requests.

An errand is done by whoever leads the quorum at the moment: in this process, or over a connection. When that node is
gone, silent, or says that it is not the controller, the errand goes to the next one, until its time is up. Nothing of
this reaches a client: it gets the controller's answer, byte for byte but for the throttle time, or REQUEST_TIMED_OUT
in the shape of its own request's response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.forwarding.outcome import Verdict, verdict_on
from barnabas.core.forwarding.principal import DefaultPrincipalSerde, KafkaPrincipalSerde
from barnabas.core.forwarding.resent import UNDERSTOOD, TopicState, judge
from barnabas.core.forwarding.throttle_time import throttle_time
from barnabas.server.forwarding.complaints import Complaints
from barnabas.server.forwarding.configs import CONFIG_APIS, forward_config_changes
from barnabas.server.forwarding.controller_channel import ActiveController, LocalChannel
from barnabas.server.forwarding.errand_runner import ErrandRunner
from barnabas.server.forwarding.errands import EnvelopeErrand, Errand, ErrandForClient, OwnErrand, inner_response
from barnabas.server.forwarding.metrics import ForwardingMetrics
from barnabas.server.router import Answer, Forwarded
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.header import decode_request_header
from barnabas.wire.message import decode_from, encode
from barnabas.wire.messages.envelope import EnvelopeResponse
from barnabas.wire.refusals import refuse

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.model.uuid import Uuid
    from barnabas.server.context import RequestContext
    from barnabas.server.forwarding.errand_runner import ForwardingNode

PART_OF_TIMEOUT: Final = 0.9
"""Of request.timeout.ms: a client whose own limit is Kafka's default should still hear the answer."""
PROOF_S: Final = 2.0
"""How long the metadata may take to show that a request that was sent twice did its work the first time, even when the
time of the request is up."""


class ForwardingChannel:
    """A `ControllerChannel` to whichever node is the active controller.

    node: this node; leader: who leads now, None while nobody is known; leader_changed: waits for the next change;
    next_image: waits until this node's metadata change; local: the controller of this process, when it has one.
    `close` ends what is under way and closes the connections.
    """

    def __init__(
        self,
        node: ForwardingNode,
        *,
        leader: Callable[[], ActiveController | None],
        leader_changed: Callable[[], Awaitable[None]],
        next_image: Callable[[], Awaitable[MetadataImage]],
        local: LocalChannel | None = None,
        serde: KafkaPrincipalSerde | None = None,
    ) -> None:
        self._node = node
        self._leader = leader
        self._next_image = next_image
        self._local = local
        self._serde = serde or DefaultPrincipalSerde()
        self._complaints = Complaints()
        metrics = ForwardingMetrics(node.metrics.registry)
        self._runner = ErrandRunner(node, leader, leader_changed, self._local, metrics, self._complaints)

    # -- what brokers use

    def controller_versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Give what the active controller speaks, as it said when last connected to; None while none is known."""
        leader = self._leader()
        if leader is not None and self._local is not None and self._runner.is_here(leader):
            return self._local.controller_versions()
        return self._runner.versions

    async def forward(self, ctx: RequestContext, frame: memoryview) -> Answer:
        """Have a client's request served at the controller, in the client's name; the answer is the controller's.

        ProtocolError when the client's connection is to be closed, so that it learns the controller's versions.
        """
        if ctx.row.key in CONFIG_APIS:
            return await forward_config_changes(ctx, frame, self._send)
        return await self._send(ctx, frame)

    async def _send(self, ctx: RequestContext, frame: memoryview) -> Answer:
        errand = EnvelopeErrand(ctx, frame, self._serde)
        try:
            answer = await self._runner.done(errand, self._budget_s())
            if isinstance(answer, EnvelopeResponse):
                return await self._relayed(errand, answer, ctx, frame)
            if errand.times_sent > 1:
                return await self._judged(errand, _request(ctx, frame), answer)
            return answer
        except ApiError as e:
            return refuse(_request(ctx, frame), ctx.version, e.code, e.message)

    async def call(self, request: Any, version: int, on_behalf: RequestContext | None = None) -> Any:
        """Have a request of this node's own served, or one made for a client, whose principal is asked about then.

        version: the newest to use. Goes on until the active controller answers; what is on behalf of a client gives
        up in time. ApiError UNSUPPORTED_VERSION when the controller has no such request, UNKNOWN_SERVER_ERROR when it
        takes no Envelopes of this node.
        """
        if on_behalf is None:
            return await self._runner.done(OwnErrand(request, version), None)
        errand = ErrandForClient(request, version, on_behalf, self._serde)
        answer = await self._runner.done(errand, self._budget_s())
        if not isinstance(answer, EnvelopeResponse):
            return answer
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            self._complaints.envelope_refused(errand, answer.error_code)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            return inner_response(errand.row, errand.version, bytes(answer.response_data))
        except ProtocolError as e:
            self._complaints.unreadable(errand, str(e))
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None

    async def close(self) -> None:
        """End what is under way and close the connections."""
        await self._runner.close()

    # -- what an answer means

    async def _relayed(self, errand: EnvelopeErrand, answer: EnvelopeResponse, ctx: RequestContext, frame: Any) -> Any:
        verdict = verdict_on(answer.error_code)
        if verdict is Verdict.CLOSE_CLIENT:
            raise ProtocolError(f"the controller cannot read {ctx.row.key.name} v{ctx.version}; connect again")
        if verdict is not Verdict.RELAY or answer.response_data is None:
            self._complaints.envelope_refused(errand, answer.error_code)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        inner = bytes(answer.response_data)
        try:
            if errand.times_sent > 1 and ctx.row.key in UNDERSTOOD:
                inner = await self._judged_frame(errand, _request(ctx, frame), inner)
            ctx.throttle_ms = max(ctx.throttle_ms, throttle_time(ctx.row, ctx.version, inner))
        except ProtocolError as e:
            self._complaints.unreadable(errand, str(e))
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        return Forwarded(inner)

    async def _judged_frame(self, errand: EnvelopeErrand, request: Any, inner: bytes) -> bytes:
        response = inner_response(errand.row, errand.version, inner)
        head = inner[: len(inner) - len(encode(response, errand.version))]
        made = head + encode(await self._judged(errand, request, response), errand.version)
        return inner if made == inner else made

    async def _judged(self, errand: Errand, request: Any, response: Any) -> Any:
        """Give success where an earlier attempt did the work whose answer was lost (see core.forwarding.resent)."""
        first = _TopicsOf(errand.first_seen or self._node.image())
        loop = asyncio.get_running_loop()
        until = max(loop.time() + PROOF_S, errand.deadline or 0)
        judged = judge(request, response, first, _TopicsOf(self._node.image()))
        while judged.open and loop.time() < until:
            try:
                async with asyncio.timeout_at(until):
                    await self._next_image()
            except TimeoutError:
                break
            judged = judge(request, response, first, _TopicsOf(self._node.image()))
        return judged.response

    # -- doing errands

    def _budget_s(self) -> float:
        return float(self._node.config["request.timeout.ms"]) / 1000 * PART_OF_TIMEOUT


class _TopicsOf:
    """The topics of an image, as a proof looks at them."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics

    def named(self, name: str) -> TopicState | None:
        """Give the topic of that name."""
        found = self._topics.by_name.get(name)
        return None if found is None else self._state(found)

    def with_id(self, topic_id: Uuid) -> TopicState | None:
        """Give the topic with that id."""
        found = self._topics.by_id.get(topic_id)
        return None if found is None else self._state(found)

    @staticmethod
    def _state(topic: Any) -> TopicState:
        first = topic.partitions.get(0)
        return TopicState(topic.name, topic.id, len(topic.partitions), 0 if first is None else len(first.replicas))


def _request(ctx: RequestContext, frame: memoryview) -> Any:
    _, body_at, _ = decode_request_header(frame)
    return decode_from(ctx.row.request, ctx.version, frame, body_at)[0]
