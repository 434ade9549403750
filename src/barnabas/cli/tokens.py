"""`barnabas tokens`: kafka-delegation-tokens with its flags."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, exactly_one, require, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done, show
from barnabas.client.admin.tokens import AS_THE_CLUSTER_SAYS, TokenInfo
from barnabas.client.config import ClientConfig
from barnabas.model.principal import KafkaPrincipal

_CREATE_NEEDS: Final = "CreateTokens on the user who shall own the token"
_ACTIONS: Final = ("--create", "--renew", "--expire", "--describe")
_PERIOD: Final = "In ms; -1 for as long as the cluster allows."


def command(
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    create: Annotated[bool, typer.Option("--create", help="Make a token.")] = False,
    renew: Annotated[bool, typer.Option("--renew", help="Give a token more time.")] = False,
    expire: Annotated[bool, typer.Option("--expire", help="Give a token less time, or end it.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show tokens.")] = False,
    owner_principal: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE:NAME", help="Whose token to make, or whose to show; one's own without."),
    ] = None,
    renewer_principal: Annotated[
        list[str] | None, typer.Option(metavar="TYPE:NAME", help="Who else may renew and expire it, with --create.")
    ] = None,
    max_life_time_period: Annotated[
        int, typer.Option(help=f"How long it can be renewed for. {_PERIOD}")
    ] = AS_THE_CLUSTER_SAYS,
    renew_time_period: Annotated[
        int, typer.Option(help=f"How long it shall last from now on. {_PERIOD}")
    ] = AS_THE_CLUSTER_SAYS,
    expiry_time_period: Annotated[int, typer.Option(help="When it shall end, in ms from now; -1 for at once.")] = -1,
    hmac: Annotated[str | None, typer.Option(help="What --create printed, in base64: the token to change.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create, renew, expire and show delegation tokens, as kafka-delegation-tokens does.

    Examples:

      barnabas tokens --command-config alice.properties --create --renewer-principal User:scheduler

      barnabas tokens --command-config alice.properties --describe --output json
    """
    action = exactly_one(dict(zip(_ACTIONS, (create, renew, expire, describe), strict=True)))
    config = client_config(bootstrap_server, command_config)
    owners = _principals(owner_principal, "--owner-principal")
    if action == "--create":
        renewers = _principals(renewer_principal, "--renewer-principal")
        show([_row(_created(config, owners, renewers, max_life_time_period))], output)
    elif action == "--describe":
        found = run_admin(config, lambda admin: admin.describe_tokens(owners or None))
        show([_row(token) for token in found], output, empty="There are no tokens to show.")
    else:
        token = _hmac(require(hmac, "--hmac"))
        if action == "--renew":
            ends = run_admin(config, lambda admin: admin.renew_token(token, renew_time_period))
        else:
            ends = run_admin(config, lambda admin: admin.expire_token(token, expiry_time_period))
        done(f"The token ends at {_time(ends)}.", output, expires=_time(ends), expires_ms=ends)


def _created(
    config: ClientConfig, owners: Sequence[KafkaPrincipal], renewers: Sequence[KafkaPrincipal], max_ms: int
) -> TokenInfo:
    if len(owners) > 1:
        raise CliError("--owner-principal: a token has one owner.")
    owner = owners[0] if owners else None
    return run_admin(
        config,
        lambda admin: admin.create_token(owner=owner, renewers=renewers, max_lifetime_ms=max_ms),
        needs=_CREATE_NEEDS,
    )


def _row(token: TokenInfo) -> dict[str, Any]:
    return {
        "token id": token.token_id,
        "hmac": token.password,
        "owner": str(token.owner),
        "requester": None if token.requester is None else str(token.requester),
        "renewers": [str(r) for r in token.renewers],
        "issued": _time(token.issued_ms),
        "expires": _time(token.expires_ms),
        "max": _time(token.max_ms),
    }


def _principals(texts: Sequence[str] | None, flag: str) -> list[KafkaPrincipal]:
    try:
        return [KafkaPrincipal.parse(text.strip()) for text in texts or ()]
    except ValueError as e:
        raise CliError(f"{flag}: {e}.") from None


def _hmac(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise CliError("--hmac is not base64: want what --create printed.") from None


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)  # beyond what a calendar knows
