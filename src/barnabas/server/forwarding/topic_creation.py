"""Topics that come into being when somebody asks for them: by Metadata, and the cluster's own (KIP-590).

The controller creates them, in the client's name where a client asked: it alone judges rights, policy and replication
factor. Who asked waits for a bounded time; what takes longer goes on, and the client is told to ask again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.server.complaints import OnceInAWhile
from barnabas.server.forwarding.internal_topics import internal_topic
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.server.config import NodeConfig
    from barnabas.server.context import RequestContext
    from barnabas.server.forwarding.controller_channel import ControllerChannel

log = structlog.get_logger("kafka.server.AutoTopicCreation")

CONTROLLER_DECIDES: Final = -1
WAIT_S: Final = 2.0
"""How long who asked waits. Kafka answers at once, that the topic is unknown, and the client asks again."""
_ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""What clients do not expect in Metadata, or take for final."""


class TopicCreation:
    """Asks the controller for topics. image, next_image: this node's metadata, now and after the next change."""

    def __init__(
        self,
        config: NodeConfig,
        channel: ControllerChannel,
        image: Callable[[], MetadataImage],
        next_image: Callable[[], Awaitable[MetadataImage]],
    ) -> None:
        self._config = config
        self._channel = channel
        self._image = image
        self._next_image = next_image
        self._under_way: set[asyncio.Task[Any]] = set()
        self._internal: dict[str, asyncio.Task[None]] = {}
        self._complaints = OnceInAWhile(time.monotonic)

    async def for_client(self, names: Sequence[str], ctx: RequestContext) -> dict[str, ErrorCode]:
        """Create topics in the client's name; gives why, for each that cannot be had, NONE for the others."""
        task = self._begun(self._for_client(names, ctx))
        await asyncio.wait({task}, timeout=WAIT_S)
        if task.done() and not task.cancelled():
            outcome: dict[str, ErrorCode] = task.result()
            return outcome
        return dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def internal(self, name: str) -> None:
        """Create one of the cluster's own topics, in the node's own name, once however many ask."""
        task = self._internal.get(name)
        if task is None:
            task = self._internal[name] = self._begun(self._create_internal(name))
            task.add_done_callback(lambda _: self._internal.pop(name, None))
        await asyncio.wait({task}, timeout=WAIT_S)

    async def close(self) -> None:
        """Wait for nothing any more."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _for_client(self, names: Sequence[str], ctx: RequestContext) -> dict[str, ErrorCode]:
        answer = await self._create([self._wanted(name) for name in names], ctx)
        if answer is None:
            return dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ctx.throttle_ms = max(ctx.throttle_ms, answer.throttle_time_ms)
        outcome: dict[str, ErrorCode] = {}
        for topic in answer.topics:
            code = ErrorCode(topic.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._complain(topic.name, code, topic.error_message, ctx)
            outcome[topic.name] = _told(code, ctx.version)
        await self._known({name for name, code in outcome.items() if code is ErrorCode.NONE})
        return outcome

    async def _create_internal(self, name: str) -> None:
        answer = await self._create([self._wanted(name)], None)
        if answer is None:
            return
        code = ErrorCode(answer.topics[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._complain(name, code, answer.topics[0].error_message, None)
        else:
            await self._known({name})

    async def _create(self, topics: list[CreatableTopic], ctx: RequestContext | None) -> CreateTopicsResponse | None:
        request = CreateTopicsRequest(topics=topics, timeout_ms=self._config["request.timeout.ms"])
        try:
            answer: CreateTopicsResponse = await self._channel.call(request, CreateTopicsRequest.MAX_VERSION, ctx)
        except ApiError as e:
            for topic in topics:
                self._complain(topic.name, e.code, e.message, ctx)
            return None
        return answer

    async def _known(self, names: Collection[str]) -> None:
        """Wait until this node knows the topics as well: a client that is sent to them finds them."""
        image = self._image()
        while any(name not in image.topics.by_name for name in names):
            image = await self._next_image()

    def _begun(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("auto-creation of a topic failed", exc_info=task.exception())

    def _complain(self, topic: str, code: ErrorCode, why: str | None, ctx: RequestContext | None) -> None:
        left_out = self._complaints.due((topic, code, ctx is None))
        if left_out is None:
            return
        refused = code is ErrorCode.POLICY_VIOLATION
        log.warning(
            "auto-creation refused by the policy" if refused else "auto-creation failed",
            topic=topic,
            error=code.name,
            why=why,
            through="FindCoordinator" if ctx is None else ctx.row.name,
            principal=None if ctx is None else str(ctx.principal),
            client_id=None if ctx is None else ctx.client_id,
            left_out=left_out,
        )

    def _wanted(self, name: str) -> CreatableTopic:
        return internal_topic(name, self._config) or CreatableTopic(
            name=name, num_partitions=CONTROLLER_DECIDES, replication_factor=CONTROLLER_DECIDES
        )


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """Give what Metadata of that version says of the outcome."""
    if code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return ErrorCode.NONE
    if code is ErrorCode.POLICY_VIOLATION and version < 10:
        # Old clients give up on this code at once; they would wait for ever on the true one.
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if code in _ASK_AGAIN else code
