"""`barnabas topics --create | --alter | --delete`."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.connection import pairs, report_failures, require, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat, done
from barnabas.cli.topics.selection import matching
from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.wire.errors import ApiError, ErrorCode


def create(
    config: ClientConfig,
    topic: str | None,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    settings: Sequence[str] | None,
    if_not_exists: bool,
    output: OutputFormat,
) -> None:
    """Create one topic."""
    name = require(topic, "--topic", "the name of the topic to create")
    if replica_assignment and (partitions is not None or replication_factor is not None):
        raise CliError("--replica-assignment says it all: leave --partitions and --replication-factor out.")
    new = NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if replication_factor is None else replication_factor,
        dict(enumerate(parse_assignment(replica_assignment))) if replica_assignment else {},
        pairs(settings, "--config"),
    )

    async def work(admin: Admin) -> None:
        error = (await admin.create_topics([new]))[name]
        if error is not None and not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            raise error

    run_admin(config, work, needs=f"Create on topic {name!r} or on the cluster")
    done(f"Created topic {name}.", output, topic=name)


def alter(
    config: ClientConfig,
    topic: str | None,
    partitions: int | None,
    replica_assignment: str | None,
    if_exists: bool,
    output: OutputFormat,
) -> None:
    """Raise the number of partitions of the topics that match."""
    include = require(topic, "--topic", "the topics to alter")
    count = require(partitions, "--partitions", "the number of partitions to grow to")
    assignment = parse_assignment(replica_assignment) if replica_assignment else None

    async def work(admin: Admin) -> list[str]:
        known = await admin.topics()
        names = _found(matching(known, include), include, if_exists)
        for name in names:
            new = assignment[len(known[name].partitions) :] if assignment is not None else None
            await admin.create_partitions(name, count, new)
        return names

    names = run_admin(config, work, needs=f"Alter on topic {include!r}")
    done("".join(f"Topic {n} has {count} partitions now.\n" for n in names).rstrip(), output, topics=names)


def delete(config: ClientConfig, topic: str | None, if_exists: bool, output: OutputFormat) -> None:
    """Delete the topics that match."""
    include = require(topic, "--topic", "the topics to delete")

    async def work(admin: Admin) -> dict[str, ApiError | None]:
        names = _found(matching(await admin.topics(), include), include, if_exists)
        return await admin.delete_topics(names) if names else {}

    needs = f"Delete on topic {include!r}"
    results = run_admin(config, work, needs=needs)
    report_failures({f"topic {n}": e for n, e in results.items()}, config, needs)
    done("".join(f"Deleted topic {n}.\n" for n in results).rstrip(), output, topics=list(results))


def parse_assignment(text: str) -> list[list[int]]:
    """Give the brokers of each partition from `1:2,2:3`; CliError when it cannot be read."""
    try:
        brokers = [[int(b) for b in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise CliError(f"--replica-assignment {text!r}: want broker ids such as 1:2,2:3.") from None
    for partition, replicas in enumerate(brokers):
        if len(set(replicas)) != len(replicas):
            raise CliError(f"--replica-assignment: partition {partition} names a broker twice.")
        if len(replicas) != len(brokers[0]):
            raise CliError(
                f"--replica-assignment: partition {partition} has another number of replicas than the first."
            )
    return brokers


def _found(names: list[str], include: str, if_exists: bool) -> list[str]:
    if not names and not if_exists:
        raise CliError(
            f"No topic matches {include!r}, or you may not see it; `barnabas topics --list` shows those you may."
        )
    return names
