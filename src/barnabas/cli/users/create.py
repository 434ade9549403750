"""`barnabas users create`."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, pairs, report_failures, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done
from barnabas.client.admin import Admin
from barnabas.client.admin.users import USER, ScramUpsertion
from barnabas.core.sasl.mechanisms.scram import MIN_ITERATIONS
from barnabas.model.config import Password
from barnabas.wire.errors import ApiError


def create(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    password: Annotated[str | None, typer.Option(help="The password; better in a file, or asked for.")] = None,
    password_file: Annotated[Path | None, typer.Option(help="A file whose first line is the password.")] = None,
    generate: Annotated[bool, typer.Option("--generate", help="Make a password and print it.")] = False,
    mechanism: Annotated[list[str] | None, typer.Option(help="SCRAM-SHA-256 or SCRAM-SHA-512; both without.")] = None,
    iterations: Annotated[int, typer.Option(help="How often the password is hashed.")] = MIN_ITERATIONS,
    quota: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A quota to set.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a user that logs in with SCRAM, or give one a new password.

    Examples:

      barnabas users create alice --bootstrap-server localhost:9092

      barnabas users create loader --command-config admin.properties --generate --quota producer_byte_rate=1048576
    """
    config = client_config(bootstrap_server, command_config)
    secret = _password(name, password, password_file, generate)
    quotas = {key: _number(key, value) for key, value in pairs(quota, "--quota").items()}
    wanted = [
        ScramUpsertion(name, m, Password(secret), iterations) for m in mechanism or ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    ]

    async def work(admin: Admin) -> dict[str, ApiError | None]:
        results = await admin.alter_scram(wanted)
        if quotas and not any(results.values()):
            await admin.alter_quotas({USER: name}, quotas)
        return results

    needs = "Alter on the cluster"
    report_failures(run_admin(config, work, needs=needs), config, needs)
    shown = f" Password: {secret}" if generate else ""
    done(f"User {name} can log in.{shown}", output, user=name, **({"password": secret} if generate else {}))


def _password(name: str, password: str | None, password_file: Path | None, generate: bool) -> str:
    if sum((password is not None, password_file is not None, generate)) > 1:
        raise CliError("Give one of --password, --password-file and --generate.")
    if generate:
        return secrets.token_urlsafe(18)
    if password_file is not None:
        try:
            lines = password_file.read_text(encoding="utf-8").splitlines()
        except OSError as e:
            raise CliError(f"Cannot read {password_file}: {e.strerror}.") from None
        password = lines[0] if lines else ""
    if password is None:
        password = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        raise CliError("The password is empty.")
    return password


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise CliError(f"--quota {key}={value}: a quota is a number.") from None
