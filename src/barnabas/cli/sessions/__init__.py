"""`barnabas sessions`: who is connected to the node on this machine, and the end of a session by hand."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, done, show
from barnabas.server.config import NodeConfig

app = typer.Typer(no_args_is_help=True)

KEY: Final = "barnabas.sessions.socket"
_TIMEOUT_S: Final = 10
Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="The node's server.properties.")]


@app.command("list")
def list_(config: Config, output: Output = OutputFormat.TABLE) -> None:
    """List the node's connections: who, by which mechanism and software, for how long already and still.

    Examples:

      barnabas sessions list --config server.properties
    """
    found: list[dict[str, Any]] = _asked(config, {"list": True})["sessions"]
    if output is OutputFormat.TABLE:
        found = [_for_people(one) for one in found]
    show(found, output, empty="Nobody is connected.")


@app.command()
def expire(
    config: Config,
    connection: Annotated[str, typer.Argument(help="The connection, as `barnabas sessions list` names it.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """End a session now: the client has to log in again before the node serves it any further.

    Examples:

      barnabas sessions expire --config server.properties 127.0.0.1:9092-127.0.0.1:50312-7
    """
    if not _asked(config, {"expire": connection})["expired"]:
        raise CliError(f"There is no SASL session {connection}; `barnabas sessions list` shows those that there are.")
    done(f"The session {connection} has ended.", output, connection=connection, expired=True)


def _for_people(session: dict[str, Any]) -> dict[str, Any]:
    software = f"{session.pop('client_software_name')} {session.pop('client_software_version')}".strip()
    remaining = session.pop("remaining_ms")
    age = session.pop("age_ms")
    renewals = session.pop("reauthentications")
    return {
        **session,
        "software": software or None,
        "age_s": round(age / 1000, 1),
        "remaining_s": "without end" if remaining is None else f"{remaining / 1000:.1f}",
        "renewals": renewals,
    }


def _asked(config: Path, question: dict[str, Any]) -> dict[str, Any]:
    path = NodeConfig.load(config)[KEY]
    if not path:
        raise CliError(f"{config} does not say where to ask: set {KEY}=/some/file, and start the node again.")
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_TIMEOUT_S)
            asked.connect(path)
            asked.sendall(json.dumps(question).encode() + b"\n")
            answer = b"".join(iter(lambda: asked.recv(65536), b""))
    except OSError as e:
        raise CliError(f"The node does not answer at {path}: {e.strerror or e}.") from None
    found: dict[str, Any] = json.loads(answer)
    return found
