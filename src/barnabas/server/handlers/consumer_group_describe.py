"""ConsumerGroupDescribe v0-1 (v1 tells members of the classic protocol apart). KIP-848, KIP-1099."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.groups.consumer_protocol import require_consumer_protocol
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ConsumerGroupDescribeRequest, authz=BY_HANDLER)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Describe groups, but for those with topics that the principal may not know of."""
    require_consumer_protocol(ctx)
    ctx.authz.decided = not request.group_ids
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    refused = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.group_ids
        if group_id not in allowed
    ]
    described = ctx.node.groups.describe_consumers([g for g in request.group_ids if g in allowed])
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.authorized_operations(ResourceType.GROUP, group.group_id)
    names = set().union(*map(_topics, described))
    visible = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, sorted(names)) if names else names
    return ConsumerGroupDescribeResponse(
        groups=refused + [group if _topics(group) <= visible else _hidden(group.group_id) for group in described]
    )


def _topics(group: DescribedGroup) -> set[str]:
    """Give the topics that members have, or are to have."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def _hidden(group_id: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has topics that the client is not authorized to describe.",
    )
