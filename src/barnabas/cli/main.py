"""The command `barnabas`: a table of tools, each imported only when it is asked for (design D9)."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol

import typer

from barnabas.cli.errors import CliError
from barnabas.model.config import ConfigError


@dataclass(frozen=True, slots=True)
class Command:
    """One tool. module: has `app` (a typer app with commands below it) or `command` (a function: a single command)."""

    name: str
    module: str
    help: str


COMMANDS: Final = (
    Command("run", "barnabas.cli.run", "Run a node: secured and ready when no file is given."),
    Command("cluster", "barnabas.cli.cluster", "Run a cluster of several nodes to play with; ask and change any."),
    Command("storage", "barnabas.cli.storage", "Format data directories, and look into them."),
    Command("topics", "barnabas.cli.topics", "Create, list, show, grow and delete topics."),
    Command("configs", "barnabas.cli.configs", "Show and change settings."),
    Command("client-metrics", "barnabas.cli.client_metrics", "Say which of their metrics clients are to push."),
    Command("acls", "barnabas.cli.acls", "List, add, remove, explain and check rules of who may do what."),
    Command("users", "barnabas.cli.users", "Create, list and delete users; set their quotas."),
    Command("tokens", "barnabas.cli.tokens", "Create, renew, expire and show delegation tokens."),
    Command("sessions", "barnabas.cli.sessions", "List who is connected to a node; end a session."),
    Command("reauth-check", "barnabas.cli.reauth_check", "Try how a Kafka client behaves when its sessions end."),
    Command("produce", "barnabas.cli.produce", "Write lines to a topic."),
    Command("consume", "barnabas.cli.consume", "Print the records of topics."),
    Command("groups", "barnabas.cli.groups", "Show consumer groups and their lag; move their offsets."),
    Command("transactions", "barnabas.cli.transactions", "Show transactions; find and end those that hang."),
    Command("offsets", "barnabas.cli.offsets", "Show where logs begin and end."),
    Command("delete-records", "barnabas.cli.delete_records", "Delete records before an offset."),
    Command("reassign", "barnabas.cli.reassign", "Move partitions to other brokers or log directories."),
    Command("leader-election", "barnabas.cli.leader_election", "Elect partition leaders anew."),
    Command("quorum", "barnabas.cli.quorum", "Show the metadata quorum; add and remove voters."),
    Command("features", "barnabas.cli.features", "Show and change feature levels."),
    Command("log-dirs", "barnabas.cli.log_dirs", "Show what lies in the brokers' log directories."),
    Command("metadata-shell", "barnabas.cli.metadata_shell", "Walk through the metadata as through a file system."),
    Command("dump-log", "barnabas.cli.dump_log", "Print what is in segments, indexes and snapshots."),
    Command("connect", "barnabas.cli.connect", "Run a Kafka Connect worker, whose tasks run on Spark."),
    Command("connectors", "barnabas.cli.connectors", "See and drive what runs in a group of Connect workers."),
    Command(
        "zookeeper-security-migration",
        "barnabas.cli.zookeeper_security_migration",
        "Secure the znodes of a cluster on ZooKeeper, or open them.",
    ),
    Command("demo", "barnabas.demo.command", "Take real flights through a secured node into a Parquet lake."),
    Command("doctor", "barnabas.cli.doctor", "Say what is missing on a machine or wrong with a data directory."),
)
"""Every tool, in the order in which `barnabas --help` lists them."""


def build(requested: str | None) -> typer.Typer:
    """Give the app with `requested` loaded; of the others only name and help line are there."""
    app = typer.Typer(
        name="barnabas",
        help="A secured, Kafka-compatible streaming platform.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in COMMANDS:
        if command.name == requested:
            _load(app, command)
        else:
            app.command(command.name, help=command.help)(_not_loaded)
    return app


def _root() -> None:
    # A callback keeps the sub-command form even while the table holds a single command.
    pass


def _not_loaded() -> None:
    raise AssertionError("only names and help lines of commands that were not asked for are registered")


def _load(app: typer.Typer, command: Command) -> None:
    module = import_module(command.module)
    if hasattr(module, "app"):
        own = module.app.registered_callback
        told = None if own is None or own.callback is None else own.callback.__doc__
        app.add_typer(module.app, name=command.name, help=told or command.help)
    else:
        # The list shows the one line of the table; the tool's own help is its docstring, examples and all.
        app.command(command.name)(module.command)


def _requested(argv: Sequence[str]) -> str | None:
    if "_BARNABAS_COMPLETE" in os.environ:  # the shell asks what could stand next: its line is in COMP_WORDS
        argv = os.environ.get("COMP_WORDS", "").split()[1:]
    return next((word for word in argv if not word.startswith("-")), None)


class _Helped(Protocol):
    help: str | None


def _rewrap(command: _Helped) -> None:
    """Let the terminal break the lines of docstrings, not the width that they were written in."""
    if command.help:
        paragraphs = inspect.cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(p if _is_laid_out(p) else p.replace("\n", " ") for p in paragraphs)
    for sub in getattr(command, "commands", {}).values():
        _rewrap(sub)


def _is_laid_out(paragraph: str) -> bool:
    return any(line.startswith((" ", "-", "\b")) for line in paragraph.split("\n"))


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 refused, 2 not understood."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        gc.disable()  # what is being loaded stays; looking for rubbish in it is a tenth of the time to start
        app = build(_requested(words))
        gc.enable()
        command = typer.main.get_command(app)
        _rewrap(command)
        command.main(args=words, prog_name="barnabas")
    except (CliError, ConfigError) as e:
        typer.echo(str(e), err=True)
        raise SystemExit(e.code if isinstance(e, CliError) else 1) from None


if __name__ == "__main__":
    main()
