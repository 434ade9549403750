"""`barnabas acls`: kafka-acls with its flags; why somebody may or may not, and what is wrong with the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from barnabas.cli.acls.explain import explain
from barnabas.cli.acls.flags import (
    AclFlags,
    bindings_to_add,
    filters_of,
    filters_to_remove,
    operation_text,
    resource_text,
)
from barnabas.cli.acls.lint import lint
from barnabas.cli.acls.removal import remove as remove_rules
from barnabas.cli.connection import (
    Bootstrap,
    CommandConfig,
    Connection,
    client_config,
    exactly_one,
    report_failures,
    run_admin,
)
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show, show_json
from barnabas.client.admin import Admin
from barnabas.model.acl import AclBinding

_Names = list[str] | None

app = typer.Typer()


@app.callback(invoke_without_command=True)
def command(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    add: Annotated[bool, typer.Option("--add", help="Add rules.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove rules.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List rules.")] = False,
    topic: Annotated[_Names, typer.Option(help="A topic; * for all.")] = None,
    group: Annotated[_Names, typer.Option(help="A group; * for all.")] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False,
    transactional_id: Annotated[_Names, typer.Option(help="A transactional id; * for all.")] = None,
    delegation_token: Annotated[_Names, typer.Option(help="A delegation token; * for all.")] = None,
    user_principal: Annotated[_Names, typer.Option(help="A user (as a resource); * for all.")] = None,
    resource_pattern_type: Annotated[
        str, typer.Option(help="literal or prefixed; any or match to list and remove.")
    ] = "literal",
    allow_principal: Annotated[_Names, typer.Option(metavar="User:NAME", help="Who may.")] = None,
    deny_principal: Annotated[_Names, typer.Option(metavar="User:NAME", help="Who may not.")] = None,
    principal: Annotated[_Names, typer.Option(metavar="User:NAME", help="With --list: whose rules.")] = None,
    allow_host: Annotated[_Names, typer.Option(help="Where from those who may come; anywhere without.")] = None,
    deny_host: Annotated[_Names, typer.Option(help="Where from those who may not come; anywhere without.")] = None,
    operation: Annotated[_Names, typer.Option(help="Read, Write, Create, Describe ...; All without.")] = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="All that a producer needs: Write, Describe, Create.")
    ] = False,
    consumer: Annotated[
        bool, typer.Option("--consumer", help="All that a consumer needs: Read, Describe; Read the group.")
    ] = False,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer: IdempotentWrite on the cluster as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask before removing.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List, add and remove rules of who may do what, as kafka-acls does; explain answers, and find faults in rules.

    Examples:

      barnabas acls --bootstrap-server localhost:9092 --add --allow-principal User:alice --consumer
      --topic flights --group reports

      barnabas acls --bootstrap-server localhost:9092 --list --principal User:alice

      barnabas acls explain --bootstrap-server localhost:9092 --principal User:alice --host 10.0.0.7
      --operation read --topic flights
    """
    ctx.obj = Connection(bootstrap_server, None, command_config)
    if ctx.invoked_subcommand is not None:
        return
    action = exactly_one({"--list": list_, "--add": add, "--remove": remove})
    flags = AclFlags(
        topics=topic or [],
        groups=group or [],
        cluster=cluster,
        transactional_ids=transactional_id or [],
        delegation_tokens=delegation_token or [],
        users=user_principal or [],
        pattern_type=resource_pattern_type,
        allow_principals=allow_principal or [],
        deny_principals=deny_principal or [],
        allow_hosts=allow_host or [],
        deny_hosts=deny_host or [],
        operations=operation or [],
        producer=producer,
        consumer=consumer,
        idempotent=idempotent,
    )
    bindings = bindings_to_add(flags) if action == "--add" else []
    config = client_config(bootstrap_server, command_config)
    if action == "--add":
        errors = run_admin(config, lambda a: a.create_acls(bindings), needs="Alter on the cluster")
        report_failures(dict(zip(map(_about, bindings), errors, strict=True)), config, "Alter on the cluster")
        _print(bindings, output)
    elif action == "--list":
        filters = filters_of(flags, listing=True)

        async def work(admin: Admin) -> list[AclBinding]:
            found = dict.fromkeys([b for f in filters for b in await admin.describe_acls(f)])
            return [b for b in found if not principal or b.principal in principal]

        _print(run_admin(config, work, needs="Describe on the cluster"), output)
    else:
        wanted = filters_to_remove(flags)
        if not force and not typer.confirm("Remove the rules that match?", err=True):
            raise CliError("Nothing was removed.")
        _print(run_admin(config, lambda a: remove_rules(a, wanted), needs="Alter on the cluster"), output)


app.command("explain")(explain)
app.command("lint")(lint)


def _about(binding: AclBinding) -> str:
    return f"{binding.permission_type.name} {binding.principal} {operation_text(binding.operation)}"


def _print(bindings: Sequence[AclBinding], output: OutputFormat) -> None:
    rows: list[dict[str, Any]] = [
        {
            "resource_type": resource_text(b.pattern.resource_type),
            "name": b.pattern.name,
            "pattern_type": b.pattern.pattern_type.name,
            "principal": b.principal,
            "host": b.host,
            "operation": operation_text(b.operation),
            "permission": b.permission_type.name,
        }
        for b in bindings
    ]
    if output is OutputFormat.JSON:
        show_json(rows)
    else:
        show(rows, output, empty="No rule matches.")
