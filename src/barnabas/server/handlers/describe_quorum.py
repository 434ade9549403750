"""DescribeQuorum v0-2 (v1 fetch times, v2 directory ids and addresses). KIP-595, KIP-836, KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.raft.leader import Leader
from barnabas.model.acl import AclOperation
from barnabas.server.metadata_log import METADATA_PARTITION
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DescribeQuorumRequest, authz=on_cluster(AclOperation.DESCRIBE))
def describe_quorum(request: DescribeQuorumRequest, ctx: RequestContext) -> DescribeQuorumResponse:
    """Describe the voters of the metadata log as their leader sees them."""
    if not _asks_for_metadata(request):
        return _refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    node = ctx.node.controller.driver.node
    if not isinstance(node.role, Leader):
        return _refused(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    voters = node.control.voters.last.value
    now_ms = ctx.node.clock.now_ms()
    partition = ResponsePartitionData(
        partition_index=METADATA_PARTITION.partition,
        error_message=None,
        leader_id=node.role.node_id,
        leader_epoch=node.epoch,
        high_watermark=-1 if node.high_watermark is None else node.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.node_id,
                replica_directory_id=voter.key.directory_id,
                log_end_offset=node.log_end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in voters
        ],
    )
    response = DescribeQuorumResponse(
        error_message=None, topics=[ResponseTopicData(topic_name=METADATA_PARTITION.topic, partitions=[partition])]
    )
    if ctx.version >= 2:
        response.nodes = [
            Node(
                node_id=voter.node_id,
                listeners=[Listener(name=name, host=e.host, port=e.port) for name, e in voter.endpoints],
            )
            for voter in voters
        ]
        return response
    for state in partition.current_voters:
        state.replica_directory_id = ReplicaState().replica_directory_id
    return response


def _asks_for_metadata(request: DescribeQuorumRequest) -> bool:
    asked = [(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions]
    return asked == [tuple(METADATA_PARTITION)]


def _refused(request: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse:
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                ResponsePartitionData(partition_index=p.partition_index, error_code=code, error_message=code.message)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(error_message=None, topics=topics)
