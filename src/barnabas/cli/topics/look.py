"""`barnabas topics --list | --describe`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from barnabas.cli.connection import run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat, show, show_json
from barnabas.cli.topics.selection import matching
from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType, ConfigSource
from barnabas.client.config import ClientConfig
from barnabas.net.client import UnsupportedVersionError
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.describe_configs import DescribeConfigsResourceResult
from barnabas.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition as Partition,
)
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic as Topic

_OWN = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFilter:
    """What of the topics to show."""

    topic_id: str | None
    if_exists: bool
    exclude_internal: bool
    under_replicated: bool
    unavailable: bool
    under_min_isr: bool
    at_min_isr: bool
    overridden: bool
    partition_limit: int

    @property
    def only_partitions(self) -> bool:
        """Say whether topics without a matching partition are of no interest."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr

    def takes(self, partition: Partition, live: Iterable[int], min_isr: int) -> bool:
        """Say whether a partition is to be shown."""
        isr = len(partition.isr_nodes)
        leaderless = partition.leader_id < 0
        return (
            not self.only_partitions
            or (self.under_replicated and isr < len(partition.replica_nodes))
            or (self.unavailable and (leaderless or partition.leader_id not in live))
            or (self.under_min_isr and (leaderless or isr < min_isr))
            or (self.at_min_isr and isr == min_isr)
        )


def list_names(config: ClientConfig, topic: str | None, *, exclude_internal: bool, output: OutputFormat) -> None:
    """Print the names of the topics that match, one a line."""
    known = run_admin(config, lambda admin: admin.topics(), needs="Describe on the topics")
    names = matching(known, topic, exclude_internal=exclude_internal)
    if output is OutputFormat.JSON:
        show_json(names)
    else:
        typer.echo("".join(f"{name}\n" for name in names), nl=False)


def describe(config: ClientConfig, topic: str | None, chosen: DescribeFilter, output: OutputFormat) -> None:
    """Print the topics that match, with their partitions."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        known = await admin.topics()
        if chosen.topic_id is not None:
            names = [t.name for t in known.values() if str(t.topic_id) == chosen.topic_id]
        else:
            names = matching(known, topic, exclude_internal=chosen.exclude_internal)
        if not names:
            if (topic is None and chosen.topic_id is None) or chosen.if_exists:
                return []
            raise CliError(f"No topic matches {topic or chosen.topic_id!r}, or you may not see it.")
        described = await _described(admin, names, chosen.partition_limit)
        configs = await _configs(admin, names)
        live = {n.id for n in await admin.nodes()}
        return [_topic(t, configs.get(t.name or "", ()), chosen, live) for t in described]

    topics = run_admin(config, work, needs="Describe and DescribeConfigs on the topics")
    if chosen.overridden:
        topics = [t for t in topics if t["configs"]]
    if chosen.only_partitions:
        topics = [t for t in topics if t["partitions"]]
    if output is OutputFormat.JSON:
        show_json(topics)
        return
    for t in topics:
        configs = ",".join(f"{k}={v}" for k, v in t["configs"].items())
        typer.echo(
            f"Topic: {t['topic']}   TopicId: {t['topic_id']}   PartitionCount: {t['partition_count']}"
            f"   ReplicationFactor: {t['replication_factor']}   Configs: {configs}"
        )
        if not chosen.overridden:
            show(t["partitions"], output)


async def _described(admin: Admin, names: Sequence[str], limit: int) -> list[Topic]:
    try:
        return await admin.describe_topics(names, partition_limit=limit)
    except UnsupportedVersionError:  # before Kafka 3.7
        known = await admin.topics()
        return [
            Topic(
                name=name,
                topic_id=known[name].topic_id,
                is_internal=known[name].is_internal,
                partitions=[
                    Partition(
                        partition_index=p.partition,
                        leader_id=p.leader,
                        replica_nodes=list(p.replicas),
                        isr_nodes=list(p.isr),
                    )
                    for p in known[name].partitions.values()
                ],
            )
            for name in names
            if name in known
        ]


async def _configs(admin: Admin, names: Sequence[str]) -> Mapping[str, Sequence[DescribeConfigsResourceResult]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found = await admin.describe_configs(resources)
    # Who may describe a topic, but not its settings, sees it without them, as with Kafka's own tool.
    return {r.name: c for r, c in found.items() if not isinstance(c, ApiError)}


def _topic(
    topic: Topic, configs: Sequence[DescribeConfigsResourceResult], chosen: DescribeFilter, live: Iterable[int]
) -> dict[str, Any]:
    min_isr = next((int(c.value or 1) for c in configs if c.name == "min.insync.replicas"), 1)
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
        "configs": {c.name: c.value for c in configs if c.config_source in _OWN},
        "partitions": [
            {
                "partition": p.partition_index,
                "leader": p.leader_id if p.leader_id >= 0 else None,
                "replicas": p.replica_nodes,
                "isr": p.isr_nodes,
                "elr": p.eligible_leader_replicas,
                "last_known_elr": p.last_known_elr,
            }
            for p in topic.partitions
            if chosen.takes(p, live, min_isr)
        ],
    }
