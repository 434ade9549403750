"""What `--topic flights:0,1` names."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.errors import CliError
from barnabas.client.admin import Admin
from barnabas.model.topic_partition import TopicPartition


async def partitions_of(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """Give the partitions that --topic flags name; CliError for those that are not there."""
    known = await admin.topics()
    found = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        if name not in known:
            raise CliError(f"There is no topic {name}, or you may not see it.")
        there = known[name].partitions
        try:
            wanted = [int(n) for n in numbers.split(",")] if colon else list(there)
        except ValueError:
            raise CliError(f"--topic {text!r}: want TOPIC or TOPIC:0,1.") from None
        for missing in (n for n in wanted if n not in there):
            raise CliError(f"Topic {name} has no partition {missing}, only 0 to {len(there) - 1}.")
        found += [TopicPartition(name, n) for n in wanted]
    return found
