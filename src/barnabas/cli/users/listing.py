"""`barnabas users list`."""

from __future__ import annotations

from typing import Any

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, run_admin
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.client.admin.users import ANY_NAME, USER, EntityMatch
from barnabas.wire.errors import ApiError


def list_users(
    bootstrap_server: Bootstrap = None, command_config: CommandConfig = None, output: Output = OutputFormat.TABLE
) -> None:
    """List users that have SCRAM credentials or quotas.

    Examples:

      barnabas users list --bootstrap-server localhost:9092
    """
    config = client_config(bootstrap_server, command_config)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        users: dict[str, dict[str, Any]] = {}
        for name, credentials in (await admin.describe_scram()).items():
            mechanisms = [] if isinstance(credentials, ApiError) else sorted(c.mechanism for c in credentials)
            users[name] = {"user": name, "mechanisms": mechanisms, "quotas": {}}
        found = await admin.describe_quotas([EntityMatch(USER, ANY_NAME)], strict=True)
        for ((_, named),), quotas in found.items():
            shown = named or "<default>"
            users.setdefault(shown, {"user": shown, "mechanisms": [], "quotas": {}})["quotas"] = quotas
        return [users[name] for name in sorted(users)]

    rows = run_admin(config, work, needs="Describe and DescribeConfigs on the cluster")
    show(rows, output, empty="There are no users with credentials or quotas.")
