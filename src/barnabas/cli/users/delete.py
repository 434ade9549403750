"""`barnabas users delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, report_failures, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done
from barnabas.client.admin import Admin
from barnabas.client.admin.users import USER, EntityMatch, ScramDeletion
from barnabas.wire.errors import ApiError


def delete(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    mechanism: Annotated[list[str] | None, typer.Option(help="Only this credential; quotas stay.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Take a user's SCRAM credentials and quotas away. Connections that are open stay open.

    Examples:

      barnabas users delete alice --bootstrap-server localhost:9092
    """
    config = client_config(bootstrap_server, command_config)

    async def work(admin: Admin) -> dict[str, ApiError | None]:
        credentials = (await admin.describe_scram([name])).get(name, [])
        held = [] if isinstance(credentials, ApiError) else [c.mechanism for c in credentials]
        deletions = [ScramDeletion(name, m) for m in held if not mechanism or m in mechanism]
        quotas = {} if mechanism else await admin.describe_quotas([EntityMatch(USER, name)], strict=True)
        if not deletions and not quotas:
            raise CliError(f"User {name} has no such credentials and no quotas.")
        results = await admin.alter_scram(deletions=deletions) if deletions else {}
        for values in quotas.values():
            await admin.alter_quotas({USER: name}, dict.fromkeys(values))
        return results

    needs = "Alter on the cluster"
    report_failures(run_admin(config, work, needs=needs), config, needs)
    done(f"User {name} can no longer log in." if not mechanism else f"Updated user {name}.", output, user=name)
