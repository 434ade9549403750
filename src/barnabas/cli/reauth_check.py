"""`barnabas reauth-check`: how a Kafka client behaves when its sessions end (KIP-368)."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import structlog
import typer

from barnabas.cli.connection import client_config, run
from barnabas.cli.errors import CliError
from barnabas.cli.tables import progress, show_json
from barnabas.reauth.command import ClientProcess, CommandError
from barnabas.reauth.live import LIVES, START_SECONDS, session_lifetime_ms, watch
from barnabas.reauth.outside import Outside, judge
from barnabas.reauth.run import LEAST_LIFETIME_MS, LIFETIME_MS, Check, Result, run_all
from barnabas.reauth.scenarios import SCENARIOS, Scenario
from barnabas.reauth.verdict import Outcome
from barnabas.testing.sessions import MECHANISMS, PROTOCOLS

_MARKS: Final = {
    Outcome.GOOD: "good",
    Outcome.GETS_BY: "gets by",
    Outcome.BAD: "BAD",
    Outcome.UNKNOWN: "unknown",
}


def command(
    client_command: Annotated[
        str, typer.Option("--client-command", metavar="COMMAND", help="The client under test, with placeholders.")
    ],
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(MECHANISMS)}.")] = "SCRAM-SHA-512",
    protocol: Annotated[str, typer.Option(help=f"One of {', '.join(PROTOCOLS)}.")] = "SASL_PLAINTEXT",
    lifetime: Annotated[
        float, typer.Option(metavar="SECONDS", help=f"Of a session; {LEAST_LIFETIME_MS / 1000} at least.")
    ] = LIFETIME_MS / 1000,
    only: Annotated[
        list[str] | None,
        typer.Option("--scenario", help=f"Only this one; repeatable: {', '.join(s.name for s in SCENARIOS)}."),
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="How many scenarios to run at the same time.")] = 2,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Leave logs and the client's output in this new directory.")
    ] = None,
    bootstrap_server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Watch the client at this cluster instead.")
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --bootstrap-server: client settings, as Java spells them.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="With --bootstrap-server: the topic that the client writes to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Run a client against nodes whose sessions end soon, and say in plain words how it behaves (KIP-368).

    Each scenario has a node of its own, here in this process, and starts the command anew. The command should write
    records to {topic} until it is ended, best the numbers 0, 1, 2, ... as text: then lost records can be seen. What
    the node sees decides, not what the client says; but a client that cannot go on should end with an exit code
    other than 0, or say so.

    Placeholders: {bootstrap} {topic} {username} {password} {mechanism} {protocol} {ca}, and files with all of it:
    {properties} as Java spells it, {librdkafka} for kcat and confluent-kafka, {python} (JSON) for kafka-python.
    The same stands in the environment as REAUTH_BOOTSTRAP and so on.

    Exit code 0 when the client is good in every scenario, 1 when not.

    With --bootstrap-server the client is watched at a cluster of yours, Apache Kafka too, that has
    connections.max.reauth.ms set to some seconds. Seen from outside is only whether it re-authenticates in time and
    whether records are lost: there is one verdict and there are no scenarios. Placeholders are {bootstrap}, {topic} and
    {properties}, which is your own file; nobody else should write to the topic meanwhile. Linux only.

    Examples:

      barnabas reauth-check --client-command "python my_producer.py --config {librdkafka} --topic {topic}"

      barnabas reauth-check --client-command "sh -c 'seq 100000 | pv -qL 500 | kcat -P -F {librdkafka} -t {topic}'"

      barnabas reauth-check --scenario short --scenario password --mechanism PLAIN --lifetime 2 --json \
--client-command "java -cp app.jar MyProducer {properties}"

      barnabas reauth-check --bootstrap-server kafka:9093 --command-config alice.properties --topic orders-test \
--client-command "java -cp app.jar MyProducer {properties}"
    """
    if bootstrap_server is not None:
        _live(client_command, bootstrap_server, command_config, topic, as_json)
    if command_config is not None or topic is not None:
        raise CliError("--command-config and --topic are for a cluster of your own: --bootstrap-server says which.")
    scenarios = _chosen(only)
    check = Check(client_command, _one_of("protocol", protocol, PROTOCOLS), _one_of("mechanism", mechanism, MECHANISMS))
    check = Check(check.command, check.protocol, check.mechanism, _milliseconds(lifetime))
    results: list[Result] = []
    try:
        with _folder(keep) as folder, _quiet(folder), progress("scenarios", len(scenarios)) as steps:
            for result in run_all(check, scenarios, folder, at_once):
                results.append(result)
                steps.advance()
                if not as_json:
                    _tell(result)
    except CommandError as e:
        raise CliError(str(e)) from None
    good = all(result.verdict.outcome is Outcome.GOOD for result in results)
    if as_json:
        show_json({"good": good, "scenarios": [_facts(result) for result in results]})
    else:
        typer.echo("The client re-authenticates as it should." if good else "The client is not good in every scenario.")
    raise SystemExit(0 if good else 1)


def _live(
    client_command: str, bootstrap_server: str, command_config: Path | None, topic: str | None, as_json: bool
) -> NoReturn:
    if command_config is None or topic is None:
        raise CliError("--bootstrap-server: say how to log in by --command-config, and where records go by --topic.")
    config = client_config(bootstrap_server, command_config)
    places = {"bootstrap": bootstrap_server, "topic": topic, "properties": str(command_config.absolute())}

    async def work() -> Outside:
        lifetime_ms = await session_lifetime_ms(config)
        if not lifetime_ms:
            return Outside(0)
        most_s = LIVES * lifetime_ms / 1000 + START_SECONDS
        typer.echo(f"Sessions last {lifetime_ms / 1000:g} s: watching for {most_s:.0f} s at most.", err=True)
        with tempfile.TemporaryDirectory(prefix="barnabas-reauth-") as folder:
            log = Path(folder) / "client.log"
            return await watch(config, topic, lifetime_ms, lambda: ClientProcess(client_command, places, log))

    try:
        seen = run(config, work, needs="Describe and Read on the topic")
    except CommandError as e:
        raise CliError(str(e)) from None
    verdict = judge(seen)
    if as_json:
        facts = {"lifetime_ms": seen.lifetime_ms, "opened_ms": seen.opened_ms, "records": asdict(seen.records)}
        show_json(
            {"good": verdict.outcome is Outcome.GOOD, "outcome": verdict.outcome, "verdict": verdict.words, **facts}
        )
    else:
        typer.echo(f"{_MARKS[verdict.outcome]:8} {verdict.words}.")
    raise SystemExit(0 if verdict.outcome is Outcome.GOOD else 1)


def _tell(result: Result) -> None:
    typer.echo(f"{_MARKS[result.verdict.outcome]:8} {result.scenario.title}: {result.verdict.words}.")


def _facts(result: Result) -> dict[str, Any]:
    seen = result.seen
    return {
        "scenario": result.scenario.name,
        "outcome": result.verdict.outcome,
        "verdict": result.verdict.words,
        "exit_code": seen.exit_code,
        "requests": seen.requests,
        "records": asdict(seen.records),
        "connections": [{**asdict(one), "renewals": one.renewals} for one in seen.connections],
    }


def _chosen(names: list[str] | None) -> list[Scenario]:
    known = {one.name: one for one in SCENARIOS}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise CliError(f"--scenario {unknown[0]}: there are {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or known)]


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise CliError(f"--{option} {value}: want one of {', '.join(known)}.")
    return value


def _milliseconds(seconds: float) -> int:
    if seconds * 1000 < LEAST_LIFETIME_MS:
        raise CliError(
            f"--lifetime {seconds:g}: want {LEAST_LIFETIME_MS / 1000} at least; a node takes one renewal a second of a "
            "connection."
        )
    return int(seconds * 1000)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="barnabas-reauth-") as folder:
            yield Path(folder)
        return
    if "," in str(keep.absolute()):
        raise CliError(f"--keep {keep}: a node's directory may have no comma in its path, as log.dirs is a list.")
    try:
        keep.mkdir(mode=0o700, parents=True)
    except OSError as e:
        raise CliError(f"--keep {keep}: {e.strerror or e}.") from None
    yield keep.absolute()


@contextmanager
def _quiet(folder: Path) -> Iterator[None]:
    """Let the nodes' own log go to a file: on the terminal are verdicts."""
    before = structlog.get_config()
    with (folder / "nodes.log").open("w", encoding="utf-8") as log:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
                structlog.processors.format_exc_info,
                structlog.processors.LogfmtRenderer(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=structlog.WriteLoggerFactory(log),
        )
        try:
            yield
        finally:
            structlog.configure(**before)
