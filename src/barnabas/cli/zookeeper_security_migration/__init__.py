"""`barnabas zookeeper-security-migration`: secure a Kafka cluster's znodes, open them, take it back (KIP-38)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat
from barnabas.core.zookeeper.values import ZnodeId

from .options import Options

_DEFAULT_MS: Final = 30_000


def command(
    acl: Annotated[
        str | None, typer.Option("--zookeeper.acl", metavar="WHAT", help="What the znodes become: secure or unsecure.")
    ] = None,
    connect: Annotated[
        str,
        typer.Option("--zookeeper.connect", metavar="HOSTS", help="Where ZooKeeper is: host:port,host:port/chroot."),
    ] = "localhost:2181",
    session_timeout: Annotated[
        int, typer.Option("--zookeeper.session.timeout", min=1, metavar="MS", help="Of the session with ZooKeeper.")
    ] = _DEFAULT_MS,
    connection_timeout: Annotated[
        int, typer.Option("--zookeeper.connection.timeout", min=1, metavar="MS", help="How long to wait for ZooKeeper.")
    ] = _DEFAULT_MS,
    enable_path_check: Annotated[
        bool, typer.Option("--enable.path.check", help="Change nothing unless all root paths of Kafka are there.")
    ] = False,
    zk_tls_config_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How to speak TLS to ZooKeeper: keys zookeeper.ssl.*.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    undo_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to keep what was before; by default a new file here.")
    ] = None,
    undo: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bring back what an undo file says was before.")
    ] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Give these all rights as well, as sasl:tool; repeatable."),
    ] = None,
    revoke_others: Annotated[
        bool, typer.Option("--revoke-others", help="Take the rights of ids neither ours nor granted.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Secure the znodes of a Kafka cluster that runs on ZooKeeper, or open them, while it serves (KIP-38).

    To secure a cluster, restart its brokers one by one with a JAAS file, then with zookeeper.set.acl=true, then run
    this with secure. To open it, restart them with zookeeper.set.acl=false, then run this with unsecure.

    The login is the brokers' own: KAFKA_OPTS=-Djava.security.auth.login.config=FILE with a section Client, or a TLS key
    by --zk-tls-config-file. --zookeeper.session.timeout and --zookeeper.connection.timeout say how long to wait.

    Before the first change, an undo file keeps every ACL that is going to change. An interrupted run is completed by
    running it again; with the same --undo-file its undo file stays one.

    Exit code 0 when all is as wanted, 1 when not, 2 when the words are not understood.

    Examples:

      barnabas zookeeper-security-migration --zookeeper.acl=secure --zookeeper.connect=zk1:2181/kafka --dry-run

      barnabas zookeeper-security-migration --zookeeper.acl=secure --zookeeper.connect=zk1:2181/kafka

      barnabas zookeeper-security-migration --undo zookeeper-acls.undo --zookeeper.connect=zk1:2181/kafka
    """
    if (undo is None) is (acl is None) or acl not in (None, "secure", "unsecure"):
        raise typer.BadParameter("want --zookeeper.acl=secure, --zookeeper.acl=unsecure, or --undo FILE")
    if undo is not None and (grant or revoke_others or undo_file or enable_path_check):
        raise typer.BadParameter("--undo brings back what its file says; it takes --dry-run and --output")
    if grant and acl != "secure":
        raise typer.BadParameter("--grant: open znodes are everybody's; it goes with --zookeeper.acl=secure")
    options = Options(
        connect, session_timeout, connection_timeout, zk_tls_config_file, acl == "secure",
        tuple(map(_who, grant or ())), revoke_others, enable_path_check, dry_run, output,
        undo_file or Path(f"zookeeper-acls-before-{acl}-{time.strftime('%Y%m%d-%H%M%S')}.undo"), undo,
    )  # fmt: skip
    try:
        from .runs import run
    except ModuleNotFoundError as e:
        raise CliError(f"There is no {e.name} here: pip install 'barnabas[zookeeper]'") from None
    run(options)


def _who(text: str) -> ZnodeId:
    scheme, colon, name = text.partition(":")
    if not (scheme and colon and name) or scheme in ("world", "auth"):
        raise typer.BadParameter(f"--grant {text}: want a scheme and an id, as sasl:tool")
    return ZnodeId(scheme, name)
