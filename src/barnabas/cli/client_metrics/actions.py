"""What `barnabas client-metrics` does to subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from barnabas.cli.connection import report_failures, run_admin
from barnabas.cli.tables import OutputFormat, done, show, show_json
from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.config import ClientConfig
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.describe_configs import DescribeConfigsResourceResult

_KIND = ConfigResourceType.CLIENT_METRICS
_SEE = "DescribeConfigs on the cluster"
_CHANGE = "AlterConfigs on the cluster"


def list_subscriptions(config: ClientConfig, output: OutputFormat) -> None:
    """Print the names of the subscriptions."""
    names = run_admin(config, lambda admin: admin.list_config_resources(_KIND), needs=_SEE)
    if output is OutputFormat.JSON:
        show_json(names)
    else:
        for name in names:
            typer.echo(name)


def describe_subscriptions(config: ClientConfig, name: str | None, output: OutputFormat) -> None:
    """Print the settings of one subscription, or of all."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        names = await admin.list_config_resources(_KIND)
        wanted = [one for one in names if name is None or one == name]
        return [
            {"name": one, "key": entry.name, "value": entry.value}
            for one in wanted
            for entry in await _settings(admin, one)
        ]

    rows = run_admin(config, work, needs=_SEE)
    show(rows, output, empty="There is no subscription." if name is None else f"There is no subscription {name!r}.")


def alter_subscription(config: ClientConfig, name: str, changes: Mapping[str, str], output: OutputFormat) -> None:
    """Set keys of a subscription; an empty value takes the key away."""
    _change(
        config,
        name,
        [
            ConfigChange(key, AlterConfigOp.SET, value) if value else ConfigChange(key, AlterConfigOp.DELETE)
            for key, value in changes.items()
        ],
    )
    done(f"Altered client metrics config for {name}.", output, name=name, altered=dict(changes))


def delete_subscription(config: ClientConfig, name: str, output: OutputFormat) -> None:
    """Take all keys of a subscription away, and so the subscription."""
    entries = run_admin(config, lambda admin: _settings(admin, name), needs=_SEE)
    _change(config, name, [ConfigChange(entry.name, AlterConfigOp.DELETE) for entry in entries])
    done(f"Deleted client metrics config for {name}.", output, name=name)


def _change(config: ClientConfig, name: str, changes: list[ConfigChange]) -> None:
    resource = ConfigResource(_KIND, name)
    results = run_admin(config, lambda admin: admin.incremental_alter_configs({resource: changes}), needs=_CHANGE)
    report_failures({name: results.get(resource)}, config, _CHANGE)


async def _settings(admin: Admin, name: str) -> list[DescribeConfigsResourceResult]:
    resource = ConfigResource(_KIND, name)
    found = (await admin.describe_configs([resource]))[resource]
    if isinstance(found, ApiError):
        raise found
    return sorted(found, key=lambda entry: entry.name)
