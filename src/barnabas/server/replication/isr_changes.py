"""Proposed ISRs on their way to the controller: AlterPartition, one request at a time (KIP-497, KIP-903).

What is proposed while a request is under way goes with the next one. A request is never given up: either the
controller answers, or the metadata log says what has become of the partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.core.metadata.topics import RECOVERED, RECOVERING
from barnabas.core.replication.in_sync import Granted, IsrProposal
from barnabas.model.uuid import Uuid
from barnabas.net.client import ChannelError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

if TYPE_CHECKING:
    from barnabas.server.forwarding.controller_channel import ControllerChannel
    from barnabas.server.replication.partition import Partition

log = structlog.get_logger("kafka.server.AlterPartition")

RETRY_S: Final = 0.05
Key = tuple[Uuid, int]


class IsrChanges:
    """A task that sends what partitions propose, and hands them the answers."""

    def __init__(self, node_id: int, channel: ControllerChannel, broker_epoch: Callable[[], int]) -> None:
        """broker_epoch: of this broker's registration at the moment."""
        self._node_id = node_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._unsent: dict[Key, tuple[Partition, IsrProposal]] = {}
        self._news = asyncio.Event()

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a proposal with the next request; it takes the place of an older one that still waits."""
        self._unsent[partition.topic_id, partition.tp.partition] = (partition, proposal)
        self._news.set()

    async def run(self) -> None:
        """Send what is proposed, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            sent, self._unsent = self._unsent, {}
            if sent and not await self._send(sent):
                self._unsent = {**sent, **self._unsent}
                self._news.set()
                await asyncio.sleep(RETRY_S)
            elif not self._unsent.keys().isdisjoint(sent):
                await asyncio.sleep(RETRY_S)  # refused for no known reason, and tried again

    async def _send(self, sent: dict[Key, tuple[Partition, IsrProposal]]) -> bool:
        request = AlterPartitionRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        topics: dict[Uuid, RequestTopicData] = {}
        for (topic_id, number), (_, proposal) in sent.items():
            topic = topics.setdefault(topic_id, RequestTopicData(topic_id=topic_id))
            topic.partitions.append(asked(number, proposal))
        request.topics = list(topics.values())
        try:
            answer: AlterPartitionResponse = await self._channel.call(request, request.MAX_VERSION)
        except ChannelError as e:
            log.warning("ISRs not sent", partitions=len(sent), why=str(e))
            return False
        if answer.error_code:
            log.warning("ISRs not taken", partitions=len(sent), error=ErrorCode(answer.error_code).name)
            return False
        for answered in answer.topics:
            for data in answered.partitions:
                found = sent.pop((answered.topic_id, data.partition_index), None)
                if found is not None:
                    _deliver(*found, data)
        self._unsent = {**sent, **self._unsent}  # what the answer left out, if anything
        if self._unsent:
            self._news.set()
        return True


def asked(number: int, proposal: IsrProposal) -> RequestPartitionData:
    """Give a proposal for partition `number` of a topic, as the request says it."""
    return RequestPartitionData(
        partition_index=number,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=m.broker_id, broker_epoch=m.broker_epoch) for m in proposal.isr],
        leader_recovery_state=RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )


def _deliver(partition: Partition, proposal: IsrProposal, data: ResponsePartitionData) -> None:
    if data.error_code:
        partition.refused(proposal, ErrorCode(data.error_code))
    else:
        recovering = data.leader_recovery_state == RECOVERING
        partition.granted(proposal, Granted(tuple(data.isr), data.leader_epoch, data.partition_epoch, recovering))
