"""`barnabas reassign --generate`: a plan that spreads topics over brokers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.cli.errors import CliError
from barnabas.cli.reassign.cluster_view import assignment_of, check_brokers, with_log_dirs
from barnabas.cli.reassign.documents import Plan
from barnabas.client.admin import Admin
from barnabas.core.metadata.placement import UsableBroker, place
from barnabas.model.topic_partition import TopicPartition


class Generated(NamedTuple):
    """How it is, for going back, and a plan."""

    current: Plan
    proposed: Plan


async def generate(admin: Admin, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool) -> Generated:
    """Give a plan that places the partitions of topics on these brokers, each topic's factor kept."""
    current = await assignment_of(admin, topics)
    await check_brokers(admin, brokers)
    usable = [
        UsableBroker(node.id, node.rack if rack_aware else None, False)
        for node in await admin.nodes()
        if node.id in brokers
    ]
    if len({broker.rack is None for broker in usable}) > 1:
        raise CliError("Only some of the brokers say in which rack they are: add --disable-rack-aware.")
    proposed: dict[TopicPartition, Sequence[int]] = {}
    for topic in topics:
        numbers = sorted(p.partition for p in current if p.topic == topic)
        factor = len(current[TopicPartition(topic, numbers[0])])
        placed = place(usable, len(numbers), factor, random.randrange)
        proposed |= {TopicPartition(topic, n): to for n, to in zip(numbers, placed, strict=True)}
    return Generated(await with_log_dirs(admin, current), Plan(proposed, {}))
