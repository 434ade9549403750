"""How every tool reaches a cluster, and how its refusals reach the person at the keyboard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import typer
import uvloop

from barnabas.cli.errors import CliError
from barnabas.client.accumulator import DeliveryError
from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig, load_properties_file
from barnabas.client.consumer import CorruptBatchError
from barnabas.model.config import ConfigError
from barnabas.net.client import AuthenticationError, ChannelError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError

T = TypeVar("T")
K = TypeVar("K")
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "--broker-list",
        metavar="HOST:PORT",
        help="Where the cluster is; bootstrap.servers in the file of --command-config does as well.",
    ),
]
BootstrapController = Annotated[
    str | None,
    typer.Option("--bootstrap-controller", metavar="HOST:PORT", help="Where the controllers are, to ask them instead."),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Client settings: security, user name and password."),
]
_DENIED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


class Connection(NamedTuple):
    """The connection flags of a tool with commands below it: Kafka's tools take them before the command, we on either
    side of it."""

    bootstrap_server: str | None = None
    bootstrap_controller: str | None = None
    command_config: Path | None = None

    def config(self, ctx: typer.Context) -> ClientConfig:
        """Give the client settings of these flags and those that stood before the command."""
        before: Connection = ctx.obj or Connection()
        return client_config(
            self.bootstrap_server or before.bootstrap_server,
            self.command_config or before.command_config,
            controllers=self.bootstrap_controller or before.bootstrap_controller,
        )


def client_config(
    bootstrap: str | None,
    command_config: Path | None,
    defaults: Mapping[str, str] | None = None,
    *,
    controllers: str | None = None,
    **more: str,
) -> ClientConfig:
    """Give the client settings that a tool's flags add up to; the later ones win: defaults, file, flags.

    controllers: --bootstrap-controller, of the tools that have it.
    """
    properties = dict(defaults or {})
    if command_config is not None:
        properties |= load_properties_file(command_config)
    if bootstrap is not None and controllers is not None:
        raise CliError("Give --bootstrap-server or --bootstrap-controller, not both.")
    if bootstrap is not None:
        properties["bootstrap.servers"] = bootstrap
        properties.pop("bootstrap.controllers", None)
    if controllers is not None:
        properties["bootstrap.controllers"] = controllers
        properties.pop("bootstrap.servers", None)
        properties.pop("metadata.broker.list", None)
    known = ("bootstrap.servers", "metadata.broker.list", "bootstrap.controllers")
    if not any(properties.get(key) for key in known):
        raise CliError("Say where the cluster is, for example: --bootstrap-server localhost:9092")
    properties.setdefault("default.api.timeout.ms", "30000")
    return ClientConfig.from_properties(properties, **more)


def run_admin(config: ClientConfig, work: Callable[[Admin], Awaitable[T]], *, needs: str = "") -> T:
    """Do `work` with an admin client. needs: the permission it takes, named when the cluster refuses."""

    async def connected() -> T:
        async with Admin(config) as admin:
            return await work(admin)

    return run(config, connected, needs=needs)


def run(config: ClientConfig, work: Callable[[], Awaitable[T]], *, needs: str = "") -> T:
    """Run a coroutine to its end; what can go wrong with a cluster becomes a CliError of one line."""

    async def started() -> T:
        return await work()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(started())
    except (ApiError, ChannelError, DeliveryError, ProtocolError, CorruptBatchError, ConfigError) as e:
        raise CliError(explain(e, config, needs)) from e
    except ExceptionGroup as e:
        raise CliError(explain(e.exceptions[0], config, needs)) from e


def explain(e: Exception, config: ClientConfig, needs: str = "") -> str:
    """Give one line: what happened, and what to do about it where that can be known."""
    if isinstance(e, ApiError):
        return _explain_refusal(e, config, needs)
    if isinstance(e, AuthenticationError):
        what = "ticket or keys, sasl.kerberos.service.name and" if config.by_ticket else "user name, password and"
        return f"{_sentence(str(e))} Check {what} sasl.mechanism in the client settings."
    if isinstance(e, RequestTimeoutError):
        return f"{_sentence(str(e))} The node may be overloaded; raise request.timeout.ms to wait longer."
    if isinstance(e, ProtocolError):
        too_old = "cannot be encoded" in str(e)  # what was asked for does not fit into the newest common version
        return f"The cluster is too old for this: {e}." if too_old else f"What came is damaged: {e}."
    return _sentence(str(e))


def _explain_refusal(e: ApiError, config: ClientConfig, needs: str) -> str:
    told = _sentence(e.message or e.code.message)
    if e.code in _DENIED:
        who = _principal(config)
        lacks = f"{who} lacks {needs}" if needs else f"{who} lacks a permission"
        return f"Not authorized: {told} {lacks}; an administrator grants it with `barnabas acls --add`."
    if e.code == ErrorCode.SECURITY_DISABLED:
        return f"{told} The node has no authorizer: set authorizer.class.name in its server.properties."
    if e.code == ErrorCode.UNSUPPORTED_VERSION:
        return f"{told} The cluster is too old for this."
    return f"{told} ({e.code.name})"


def _principal(config: ClientConfig) -> str:
    sasl = config.sasl
    if sasl is not None:
        return f"User:{sasl.username}"
    if config.by_bearer_token:
        return "The user whom the token names"
    if config.by_ticket:
        return "The user whom the nodes know the ticket's owner by"
    return "The owner of this certificate" if config.security_protocol == "SSL" else "User:ANONYMOUS"


def _sentence(text: str) -> str:
    text = text.strip()
    if ":" not in text.split(" ")[0]:  # which is then a host and port, or a partition
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else text + "."


def exactly_one(flags: Mapping[str, bool]) -> str:
    """Give the one action that was asked for; CliError when it is none or more."""
    chosen = [name for name, on in flags.items() if on]
    if len(chosen) != 1:
        names = list(flags)
        raise CliError(f"Say what to do, exactly one of {', '.join(names[:-1])} or {names[-1]}.")
    return chosen[0]


def require(value: T | None, flag: str, why: str = "") -> T:
    """Give a flag's value; CliError when it was not given."""
    if value is None or value in ("", []):
        raise CliError(f"{flag} is missing{f': {why}' if why else ''}.")
    return value


def pairs(texts: Sequence[str] | None, flag: str) -> dict[str, str]:
    """Give what a repeated KEY=VALUE flag says; CliError for one that is not of that form."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CliError(f"{flag} {text!r}: want KEY=VALUE.")
        found[key.strip()] = value.strip()
    return found


def report_failures(failures: Mapping[K, ApiError | None], config: ClientConfig, needs: str = "") -> None:
    """Say what went wrong for each thing that did; CliError when anything did."""
    bad = {thing: error for thing, error in failures.items() if error is not None}
    if bad:
        lines = [f"{thing}: {explain(error, config, needs)}" for thing, error in bad.items()]
        raise CliError("\n".join(lines))
