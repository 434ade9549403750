"""The options that every command takes: which worker to ask, and as whom."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from barnabas.cli.connectors.rest import DEFAULT_URL, Worker
from barnabas.cli.errors import CliError

_OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    "url": (
        Annotated[
            str,
            typer.Option(metavar="http://HOST:PORT", envvar="BARNABAS_CONNECT_URL", help="Any worker of the group."),
        ],
        DEFAULT_URL,
    ),
    "user": (
        Annotated[
            str | None, typer.Option(envvar="BARNABAS_CONNECT_USER", help="Who asks, where users are asked for.")
        ],
        None,
    ),
    "password": (
        Annotated[
            str | None,
            typer.Option(
                envvar="BARNABAS_CONNECT_PASSWORD",
                help="Better in the environment variable, or typed when asked: other users see command lines.",
            ),
        ],
        None,
    ),
    "ca": (
        Annotated[Path | None, typer.Option(metavar="PEM", help="For https: the CA that the worker's is signed by.")],
        None,
    ),
    "certificate": (
        Annotated[Path | None, typer.Option(metavar="PEM", help="For https: certificate and key of your own.")],
        None,
    ),
    "timeout": (
        Annotated[float, typer.Option(metavar="SECONDS", help="How long to go on while the group rebalances.")],
        60.0,
    ),
}


def asks_a_worker(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take these options behind its own; its first parameter, `worker`, is what they come to."""

    @wraps(command)
    def with_worker(**given: Any) -> None:
        own = {name: given.pop(name) for name in _OPTIONS}
        if own["user"] is not None and own["password"] is None:
            if not sys.stdin.isatty():
                raise CliError("--user needs a password: put it into the environment as BARNABAS_CONNECT_PASSWORD.")
            own["password"] = typer.prompt(f"Password of {own['user']}", hide_input=True, err=True)
        worker = Worker(
            own["url"], own["user"], own["password"] or "", own["ca"], own["certificate"], patience_s=own["timeout"]
        )
        command(worker, **given)

    hints = get_type_hints(command, include_extras=True)
    of_command = [p.replace(annotation=hints[name]) for name, p in inspect.signature(command).parameters.items()][1:]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in of_command] + options
    vars(with_worker)["__signature__"] = inspect.Signature(parameters, return_annotation=None)
    with_worker.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_worker
