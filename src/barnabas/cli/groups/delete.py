"""`barnabas groups --delete | --delete-offsets`."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.connection import report_failures, require, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.groups.selection import partitions_of
from barnabas.cli.tables import OutputFormat, done
from barnabas.client.admin import Admin
from barnabas.client.admin.groups import CONSUMER
from barnabas.client.config import ClientConfig
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError


def delete_groups(config: ClientConfig, groups: Sequence[str] | None, output: OutputFormat) -> None:
    """Delete groups; all those of consumers when None."""

    async def work(admin: Admin) -> dict[str, ApiError | None]:
        if groups is not None:
            return await admin.delete_groups(groups)
        found = [g.group_id for g in await admin.list_groups() if g.protocol_type in (CONSUMER, "")]
        return await admin.delete_groups(found)

    results = run_admin(config, work, needs="Delete on the group")
    report_failures({f"group {g}": e for g, e in results.items()}, config, "Delete on the group")
    done("".join(f"Deleted group {g}.\n" for g in results).rstrip(), output, groups=list(results))


def delete_offsets(
    config: ClientConfig, groups: Sequence[str] | None, topics: Sequence[str], output: OutputFormat
) -> None:
    """Forget offsets of one group."""
    if groups is None or len(groups) != 1:
        raise CliError("--delete-offsets works on one --group.")
    group = groups[0]
    require(topics, "--topic", "whose offsets to forget")

    async def work(admin: Admin) -> dict[TopicPartition, ApiError | None]:
        return await admin.delete_offsets(group, await partitions_of(admin, topics))

    needs = f"Delete on group {group!r} and Read on the topics"
    results = run_admin(config, work, needs=needs)
    report_failures(results, config, needs)
    done(
        f"Group {group} has forgotten {len(results)} offsets.",
        output,
        group=group,
        partitions=sorted(map(str, results)),
    )
