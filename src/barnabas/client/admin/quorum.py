"""Admin: the metadata quorum, and who votes in it (KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.client.admin.outcome import ClusterAdmin, check
from barnabas.model.uuid import Uuid
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from barnabas.wire.messages.describe_quorum import Node as QuorumNode
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

METADATA_TOPIC: Final = "__cluster_metadata"


class Quorum(NamedTuple):
    """The state of the metadata quorum. nodes: where the controllers listen, when the cluster says so."""

    partition: ResponsePartitionData
    nodes: Sequence[QuorumNode]


class VoterEndpoint(NamedTuple):
    """Where a voter listens; prints as Kafka prints it."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class QuorumAdmin(ClusterAdmin):
    """Operations on the quorum."""

    async def describe_quorum(self) -> Quorum:
        """Give the state of the metadata quorum; ApiError when refused."""
        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData()])

        async def once() -> Quorum:
            response: DescribeQuorumResponse = await self.cluster.call_any(DescribeQuorumRequest(topics=[topic]))
            check(response.error_code, response.error_message)
            partition = response.topics[0].partitions[0]
            check(partition.error_code, partition.error_message)
            return Quorum(partition, response.nodes)

        return await self.cluster.retry(once)

    async def add_raft_voter(self, voter: int, directory: Uuid, endpoints: Sequence[VoterEndpoint]) -> None:
        """Let a controller, which must run and have caught up, vote; ApiError when refused."""
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=self.timeout_ms,
            voter_id=voter,
            voter_directory_id=directory,
            listeners=[Listener(name=e.listener, host=e.host, port=e.port) for e in endpoints],
        )
        response: AddRaftVoterResponse = await self.cluster.call_any(request)
        check(response.error_code, response.error_message)

    async def remove_raft_voter(self, voter: int, directory: Uuid) -> None:
        """Take a controller's vote; ApiError when refused."""
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory)
        response: RemoveRaftVoterResponse = await self.cluster.call_any(request)
        check(response.error_code, response.error_message)
