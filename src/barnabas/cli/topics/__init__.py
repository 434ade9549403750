"""`barnabas topics`: kafka-topics with its flags."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, exactly_one
from barnabas.cli.tables import Output, OutputFormat
from barnabas.cli.topics.change import alter, create, delete
from barnabas.cli.topics.look import DescribeFilter, describe, list_names


def command(
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    list_: Annotated[bool, typer.Option("--list", help="List the topics.")] = False,
    describe_: Annotated[bool, typer.Option("--describe", help="Show topics with their partitions.")] = False,
    create_: Annotated[bool, typer.Option("--create", help="Create a topic.")] = False,
    alter_: Annotated[bool, typer.Option("--alter", help="Give a topic more partitions.")] = False,
    delete_: Annotated[bool, typer.Option("--delete", help="Delete topics.")] = False,
    topic: Annotated[
        str | None, typer.Option(help="The topic; a regular expression too, except with --create.")
    ] = None,
    topic_id: Annotated[str | None, typer.Option(help="With --describe: the topic by its id.")] = None,
    partitions: Annotated[int | None, typer.Option(help="How many partitions; the cluster's default without.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(help="How many replicas; the cluster's default without.")
    ] = None,
    replica_assignment: Annotated[
        str | None, typer.Option(metavar="1:2,2:3", help="Brokers of each partition, the preferred leader first.")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of a new topic.")] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing when the topic is not there.")] = False,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing when the topic is there.")] = False,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Leave internal topics out.")] = False,
    under_replicated_partitions: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only partitions that lack replicas.")
    ] = False,
    unavailable_partitions: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
    under_min_isr_partitions: Annotated[
        bool, typer.Option("--under-min-isr-partitions", help="Only partitions below min.insync.replicas.")
    ] = False,
    at_min_isr_partitions: Annotated[
        bool, typer.Option("--at-min-isr-partitions", help="Only partitions just at min.insync.replicas.")
    ] = False,
    topics_with_overrides: Annotated[
        bool, typer.Option("--topics-with-overrides", help="Only topics with settings of their own.")
    ] = False,
    partition_size_limit_per_response: Annotated[int, typer.Option(help="Partitions in one answer.")] = 2000,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create, list, show, grow and delete topics, as kafka-topics does.

    Examples:

      barnabas topics --bootstrap-server localhost:9092 --create --topic flights --partitions 4

      barnabas topics --bootstrap-server localhost:9092 --describe --topic 'flights.*' --output json

      barnabas topics --command-config client.properties --list
    """
    action = exactly_one(
        {"--list": list_, "--describe": describe_, "--create": create_, "--alter": alter_, "--delete": delete_}
    )
    cluster = client_config(bootstrap_server, command_config)
    if action == "--list":
        list_names(cluster, topic, exclude_internal=exclude_internal, output=output)
    elif action == "--describe":
        describe(
            cluster,
            topic,
            DescribeFilter(
                topic_id=topic_id,
                if_exists=if_exists,
                exclude_internal=exclude_internal,
                under_replicated=under_replicated_partitions,
                unavailable=unavailable_partitions,
                under_min_isr=under_min_isr_partitions,
                at_min_isr=at_min_isr_partitions,
                overridden=topics_with_overrides,
                partition_limit=partition_size_limit_per_response,
            ),
            output,
        )
    elif action == "--create":
        create(cluster, topic, partitions, replication_factor, replica_assignment, config, if_not_exists, output)
    elif action == "--alter":
        alter(cluster, topic, partitions, replica_assignment, if_exists, output)
    else:
        delete(cluster, topic, if_exists, output)
