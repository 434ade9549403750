"""`barnabas reassign`: kafka-reassign-partitions with its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from barnabas.cli.connection import (
    Bootstrap,
    BootstrapController,
    CommandConfig,
    client_config,
    exactly_one,
    require,
    run_admin,
)
from barnabas.cli.errors import CliError
from barnabas.cli.reassign.documents import as_document, as_line, read_plan, read_topics
from barnabas.cli.reassign.execute import Limits, begin, cancel, finish, wait
from barnabas.cli.reassign.generate import generate as make_plan
from barnabas.cli.reassign.states import Progress
from barnabas.cli.tables import Output, OutputFormat, done, show, show_json
from barnabas.client.config import ClientConfig

_FLAGS: Final = {
    "--generate": {"--topics-to-move-json-file", "--broker-list", "--disable-rack-aware"},
    "--execute": {
        "--reassignment-json-file",
        "--additional",
        "--throttle",
        "--replica-alter-log-dirs-throttle",
        "--timeout",
        "--disallow-replication-factor-change",
        "--wait",
    },
    "--verify": {"--reassignment-json-file", "--preserve-throttles"},
    "--cancel": {"--reassignment-json-file", "--preserve-throttles", "--timeout", "--bootstrap-controller"},
    "--list": {"--bootstrap-controller"},
}
"""What goes with each action, the connection aside."""
_NEEDS: Final = "Alter on the cluster"
_SEE: Final = "Describe on the cluster and on the topics"
_TIMEOUT_MS: Final = 10_000
JsonFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], '
        '"log_dirs": ["any", "/disk2"]}]}; log_dirs may be left out.',
    ),
]
Topics = Annotated[
    Path | None, typer.Option(metavar="FILE", help='{"version": 1, "topics": [{"topic": "orders"}]}, for --generate.')
]
Rate = Annotated[int | None, typer.Option(min=1, metavar="BYTES", help="Bytes a second between brokers at most.")]
LogDirsRate = Annotated[
    int | None, typer.Option(min=1, metavar="BYTES", help="Bytes a second between directories of a broker at most.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Show how far it is until all is moved, then drop the throttles.")]
Additional = Annotated[
    bool, typer.Option("--additional", help="Though others are on the way; also to change their throttle.")
]
KeepFactor = Annotated[
    bool, typer.Option("--disallow-replication-factor-change", help="Refuse to change how many replicas there are.")
]


def command(
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    generate: Annotated[bool, typer.Option("--generate", help="Propose a plan; nothing is moved.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Begin what a plan says.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Say how far it is; once done drop its throttles.")] = False,
    cancel_: Annotated[bool, typer.Option("--cancel", help="Call off what is still on the way.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show every partition on the move.")] = False,
    reassignment_json_file: JsonFile = None,
    topics_to_move_json_file: Topics = None,
    broker_list: Annotated[str | None, typer.Option(metavar="ID,ID", help="The brokers to move to.")] = None,
    disable_rack_aware: Annotated[bool, typer.Option("--disable-rack-aware", help="Forget about racks.")] = False,
    throttle: Rate = None,
    replica_alter_log_dirs_throttle: LogDirsRate = None,
    timeout: Annotated[int | None, typer.Option(min=0, help="Ms to wait for moves between directories.")] = None,
    additional: Additional = False,
    preserve_throttles: Annotated[bool, typer.Option("--preserve-throttles", help="Leave throttles be.")] = False,
    disallow_replication_factor_change: KeepFactor = False,
    wait_: Wait = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Move partitions to other brokers or log directories, as kafka-reassign-partitions does.

    Examples:

      barnabas reassign --bootstrap-server localhost:9092 --generate --topics-to-move-json-file t.json --broker-list 2,3

      barnabas reassign --bootstrap-server localhost:9092 --execute --reassignment-json-file plan.json --wait

      barnabas reassign --bootstrap-server localhost:9092 --verify --reassignment-json-file plan.json
    """
    action = exactly_one(
        {"--generate": generate, "--execute": execute, "--verify": verify, "--cancel": cancel_, "--list": list_}
    )
    given = {
        "--bootstrap-controller": bootstrap_controller is not None,
        "--reassignment-json-file": reassignment_json_file is not None,
        "--topics-to-move-json-file": topics_to_move_json_file is not None,
        "--broker-list": broker_list is not None,
        "--disable-rack-aware": disable_rack_aware,
        "--throttle": throttle is not None,
        "--replica-alter-log-dirs-throttle": replica_alter_log_dirs_throttle is not None,
        "--timeout": timeout is not None,
        "--additional": additional,
        "--preserve-throttles": preserve_throttles,
        "--disallow-replication-factor-change": disallow_replication_factor_change,
        "--wait": wait_,
    }
    _check_flags(action, {flag for flag, on in given.items() if on})
    config = client_config(bootstrap_server, command_config, controllers=bootstrap_controller)
    timeout_ms = _TIMEOUT_MS if timeout is None else timeout
    if action == "--generate":
        brokers = _brokers(require(broker_list, "--broker-list"))
        topics = require(topics_to_move_json_file, "--topics-to-move-json-file")
        _generate(config, topics, brokers, not disable_rack_aware, output)
    elif action == "--list":
        _list(config, output)
    else:
        path = require(reassignment_json_file, "--reassignment-json-file")
        if action == "--execute":
            limits = Limits(throttle, replica_alter_log_dirs_throttle)
            how = {"additional": additional, "keep_factor": disallow_replication_factor_change}
            _execute(config, path, limits, how, wait_, timeout_ms, output)
        elif action == "--verify":
            _verify(config, path, preserve_throttles, output)
        else:
            _cancel(config, path, preserve_throttles, timeout_ms, output)


def _check_flags(action: str, given: set[str]) -> None:
    for flag in sorted(given - _FLAGS[action]):
        raise CliError(f"{flag} does not go with {action}.")


def _generate(config: ClientConfig, file: Path, brokers: list[int], rack_aware: bool, output: OutputFormat) -> None:
    topics = read_topics(file)
    found = run_admin(config, lambda a: make_plan(a, topics, brokers, rack_aware=rack_aware), needs=_SEE)
    if output is OutputFormat.JSON:
        show_json({"current": as_document(found.current), "proposed": as_document(found.proposed)})
        return
    typer.echo(f"As it is now, to go back to\n{as_line(found.current)}\n")
    typer.echo(f"Proposed, for --execute --reassignment-json-file\n{as_line(found.proposed)}")


def _execute(
    config: ClientConfig,
    path: Path,
    limits: Limits,
    how: dict[str, bool],
    wait_: bool,
    timeout_ms: int,
    output: OutputFormat,
) -> None:
    plan = read_plan(path)
    saved = run_admin(config, lambda a: begin(a, plan, limits, timeout_ms=timeout_ms, **how), needs=_NEEDS)
    if output is OutputFormat.TABLE:
        typer.echo(f"As it was, to go back to\n{as_line(saved)}\n")
    if wait_:
        _show_progress(run_admin(config, lambda a: wait(a, plan), needs=_NEEDS), output)
        return
    named = ", ".join(str(p) for p in sorted(plan.replicas))
    throttled = limits.between_brokers is not None or limits.between_log_dirs is not None
    advice = " Run --verify until it is complete: that takes the throttle away." if throttled else ""
    done(f"Begun: {named}.{advice}", output, begun=[str(p) for p in plan.replicas], before=as_document(saved))


def _verify(config: ClientConfig, path: Path, preserve_throttles: bool, output: OutputFormat) -> None:
    plan = read_plan(path)
    found = run_admin(config, lambda a: finish(a, plan, preserve_throttles=preserve_throttles), needs=_NEEDS)
    _show_progress(found, output)


def _show_progress(found: Progress, output: OutputFormat) -> None:
    show(found.rows, output)
    if found.failed:
        raise CliError(f"{found.failed} of {len(found.rows)} moves have not come about.")


def _cancel(config: ClientConfig, path: Path, preserve_throttles: bool, timeout_ms: int, output: OutputFormat) -> None:
    plan = read_plan(path)

    async def work(admin: Any) -> Any:
        return await cancel(admin, plan, preserve_throttles=preserve_throttles, timeout_ms=timeout_ms)

    off = run_admin(config, work, needs=_NEEDS)
    names = [*map(str, off.partitions), *(f"replica {r}" for r in off.replicas)]
    done(f"Called off: {', '.join(names)}." if names else "Nothing of it is on the way.", output, cancelled=names)


def _list(config: ClientConfig, output: OutputFormat) -> None:
    found = run_admin(config, lambda admin: admin.list_partition_reassignments(), needs="Describe on the cluster")
    rows: list[dict[str, Any]] = [
        {
            "partition": str(p),
            "replicas": move.replicas,
            "adding": move.adding_replicas,
            "removing": move.removing_replicas,
        }
        for p, move in sorted(found.items())
    ]
    show(rows, output, empty="No partition is on the move.")


def _brokers(text: str) -> list[int]:
    try:
        brokers = [int(b) for b in text.split(",")]
    except ValueError:
        raise CliError(f"--broker-list {text!r}: want broker ids separated by commas.") from None
    if len(set(brokers)) != len(brokers):
        raise CliError(f"--broker-list {text!r} names a broker twice.")
    return brokers
