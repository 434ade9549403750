"""Topics that come into being when somebody asks for them: by Metadata, and the cluster's own (KIP-590)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.server.context import RequestContext
    from barnabas.server.controller_channel import ControllerChannel

log = structlog.get_logger("kafka.server.AutoTopicCreation")

OFFSETS_TOPIC: Final = "__consumer_offsets"
CONTROLLER_DECIDES: Final = -1


class TopicCreation:
    """Asks the controller for topics."""

    def __init__(self, config: NodeConfig, channel: ControllerChannel) -> None:
        self._config = config
        self._channel = channel

    async def for_client(self, names: Sequence[str], ctx: RequestContext) -> dict[str, ErrorCode]:
        """Create topics in the client's name; gives why, for each that cannot be had, NONE for the others."""
        answer = await self._create([self._wanted(name) for name in names], ctx)
        outcome: dict[str, ErrorCode] = {}
        for topic in answer.topics:
            code = ErrorCode(topic.error_code)
            if code is ErrorCode.POLICY_VIOLATION:
                log.warning("auto-creation refused by the policy", topic=topic.name, why=topic.error_message)
                # Old clients give up on this code at once; they would wait for ever on the true one.
                code = code if ctx.version >= 10 else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning("auto-creation failed", topic=topic.name, error=code.name, why=topic.error_message)
            outcome[topic.name] = ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code
        return outcome

    async def internal(self, name: str) -> ErrorCode:
        """Create one of the cluster's own topics, in the node's own name."""
        answer = await self._create([self._wanted(name)], None)
        code = ErrorCode(answer.topics[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.warning("cannot create", topic=name, error=code.name, why=answer.topics[0].error_message)
        return code

    async def _create(self, topics: list[CreatableTopic], ctx: RequestContext | None) -> CreateTopicsResponse:
        request = CreateTopicsRequest(topics=topics, timeout_ms=self._config["request.timeout.ms"])
        answer: CreateTopicsResponse = await self._channel.call(request, CreateTopicsRequest.MAX_VERSION, ctx)
        return answer

    def _wanted(self, name: str) -> CreatableTopic:
        if name != OFFSETS_TOPIC:
            return CreatableTopic(name=name, num_partitions=CONTROLLER_DECIDES, replication_factor=CONTROLLER_DECIDES)
        config = self._config
        return CreatableTopic(
            name=name,
            num_partitions=config["offsets.topic.num.partitions"],
            replication_factor=config["offsets.topic.replication.factor"],
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(name="segment.bytes", value=str(config["offsets.topic.segment.bytes"])),
            ],
        )
