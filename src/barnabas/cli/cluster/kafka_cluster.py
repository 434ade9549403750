"""`barnabas cluster cluster-id | list-endpoints | unregister`: kafka-cluster with its flags."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig, client_config, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done, show


def cluster_id(
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print the id of a cluster.

    Examples:

      barnabas cluster cluster-id --bootstrap-server localhost:9092
    """
    config = client_config(bootstrap_server, command_config, controllers=bootstrap_controller)
    found = run_admin(config, lambda admin: admin.describe_cluster()).cluster_id
    done(f"Cluster ID: {found}", output, cluster_id=found)


def list_endpoints(
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    include_fenced_brokers: Annotated[
        bool, typer.Option("--include-fenced-brokers", help="Also brokers that are registered but not in service.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show where brokers listen, or with --bootstrap-controller where controllers do.

    Examples:

      barnabas cluster list-endpoints --bootstrap-server localhost:9092 --include-fenced-brokers
    """
    if include_fenced_brokers and bootstrap_controller is not None:
        raise CliError("--include-fenced-brokers is about brokers: ask by --bootstrap-server.")
    config = client_config(bootstrap_server, command_config, controllers=bootstrap_controller)
    found = run_admin(config, lambda admin: admin.describe_cluster(include_fenced=include_fenced_brokers))
    rows: list[dict[str, Any]] = []
    for node in sorted(found.brokers, key=lambda b: b.broker_id):
        row: dict[str, Any] = {"id": node.broker_id, "host": node.host, "port": node.port, "rack": node.rack}
        if not config.asks_controllers:
            row["state"] = "fenced" if node.is_fenced else "unfenced"
        rows.append({**row, "endpoint_type": "controller" if config.asks_controllers else "broker"})
    show(rows, output, empty="There are none.")


def unregister(
    broker: Annotated[int, typer.Option("--id", "-i", min=0, help="The broker that is gone.")],
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Forget a broker that was stopped for good.

    Examples:

      barnabas cluster unregister --bootstrap-server localhost:9092 --id 3
    """
    config = client_config(bootstrap_server, command_config, controllers=bootstrap_controller)
    run_admin(config, lambda admin: admin.unregister_broker(broker), needs="Alter on the cluster")
    done(f"Broker {broker} is not registered any more.", output, unregistered=broker)
