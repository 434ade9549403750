"""Where `acls explain` and `acls lint` take the rules from: a live node, the quorum, a metadata log or a snapshot."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from barnabas.cli.acls.reading import AclReading, Brought
from barnabas.cli.connection import (
    Bootstrap,
    BootstrapController,
    CommandConfig,
    Connection,
    client_config,
    explain,
    run_admin,
)
from barnabas.cli.dump_log.segment import mapped
from barnabas.cli.errors import CliError
from barnabas.cli.metadata_shell.sources import DirectorySource, FileSource, QuorumSource, Source
from barnabas.client.admin import Admin
from barnabas.client.admin.acls import numbered
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.config import ClientConfig
from barnabas.model.acl import AclBinding, AclBindingFilter
from barnabas.model.principal import USER_TYPE
from barnabas.model.uuid import Uuid
from barnabas.net.client import ChannelError
from barnabas.wire.errors import ApiError, ProtocolError

Metadata = Annotated[
    Path | None,
    typer.Option(
        "--metadata",
        metavar="PATH",
        help="A metadata log, a snapshot, or a node's log directory, of Barnabas or of Apache Kafka; the node may run.",
    ),
]
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER: Final = "authorizer.class.name"
SETTINGS: Final = (SUPER_USERS, ALLOW_EVERYONE, AUTHORIZER)
NO_IDS: Final = (
    "DescribeAcls tells neither ids of rules nor the metadata offsets that brought them: --metadata (a node's log "
    "directory) and --bootstrap-controller do."
)


@dataclass(frozen=True, slots=True)
class KnownRules:
    """Rules, and what else their source tells.

    brought: what brought each rule; None where the source does not tell it, and ids are made up. settings: keys of the
    node with their values, None for a value that it keeps to itself; None when there is no node to ask.
    """

    source: str
    rules: Sequence[tuple[Uuid, AclBinding]]
    brought: Mapping[Uuid, Brought] | None = None
    scram_users: Sequence[str] = ()
    settings: Mapping[str, str | None] | None = None
    node: str = ""
    notes: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """The flags that say where the rules are."""

    bootstrap_server: Bootstrap
    bootstrap_controller: BootstrapController
    command_config: CommandConfig
    metadata: Metadata

    def load(self, ctx: typer.Context, wanted: AclBindingFilter, *, users: bool = False) -> KnownRules:
        """Give the rules; from a live node only those that the filter matches. users: SCRAM users are of interest."""
        before: Connection = ctx.obj or Connection()
        server = self.bootstrap_server or before.bootstrap_server
        if self.metadata is not None:
            if server or self.bootstrap_controller:
                raise CliError("Give --metadata, --bootstrap-server or --bootstrap-controller: one of them.")
            return from_metadata(self.metadata)
        command_config = self.command_config or before.command_config
        if server is None and self.bootstrap_controller is None and command_config is None:
            raise CliError(
                "Say where the rules are: --bootstrap-server HOST:PORT, --bootstrap-controller HOST:PORT or "
                "--metadata PATH."
            )
        config = client_config(server, command_config, controllers=self.bootstrap_controller)
        if config.asks_controllers:
            return _from_quorum(config)
        return _from_node(config, wanted, users=users)


def from_metadata(path: Path) -> KnownRules:
    """Give the rules in a metadata log, a snapshot or a node's log directory; CliError when it cannot be read."""
    reading = AclReading()
    with _no_collector():
        if path.is_dir():
            directory = DirectorySource(path)
            _catch_up(directory, reading)
            if not reading.is_exact:
                _locate(Path(directory.name), reading)
            return _known(directory.name, reading)
        _catch_up(FileSource(path), reading)
    return _known(str(path), reading)


def _from_quorum(config: ClientConfig) -> KnownRules:
    source = QuorumSource(config)
    reading = AclReading()
    with _no_collector():
        _catch_up(source, reading, config)
    return _known(f"the quorum at {source.name}", reading)


def _from_node(config: ClientConfig, wanted: AclBindingFilter, *, users: bool) -> KnownRules:
    async def work(admin: Admin) -> KnownRules:
        rules = await admin.describe_acls(wanted)
        node, settings = await _settings(admin)
        scram: Sequence[str] = ()
        notes = [NO_IDS]
        if users:
            try:
                scram = sorted(await admin.describe_scram())
            except ApiError as e:
                notes.append(f"The SCRAM users were not told ({e.code.name}): names are not compared with theirs.")
        where = ",".join(map(str, config.bootstrap))
        found = list(numbered(dict.fromkeys(rules)).items())
        return KnownRules(f"{where} by DescribeAcls", found, None, scram, settings, node, notes)

    return run_admin(config, work, needs="Describe on the cluster")


async def _settings(admin: Admin) -> tuple[str, Mapping[str, str | None] | None]:
    """Give what a node tells of its settings, None for those that it keeps to itself."""
    brokers = (await admin.describe_cluster()).brokers
    if not brokers:
        return "", None
    resource = ConfigResource(ConfigResourceType.BROKER, str(min(b.broker_id for b in brokers)))
    told = (await admin.describe_configs([resource], keys=SETTINGS)).get(resource)
    node = f"node {resource.name}"
    if told is None or isinstance(told, ApiError):
        return node, None
    return node, {entry.name: entry.value for entry in told}


def _known(name: str, reading: AclReading) -> KnownRules:
    rules, credentials = reading.settled
    notes = [
        f"Left out: {count} rules with {what}, which is not known here." for what, count in reading.left_out.items()
    ]
    by_snapshot = sum(reading.brought[acl_id].by_snapshot for acl_id in rules)
    if by_snapshot:
        notes.append(
            f"{by_snapshot} rules came by a snapshot, without the log that made them: their offset is the snapshot's."
        )
    if reading.begin is None:
        raise CliError(f"{name} has no metadata record in it: want a metadata log, a snapshot or a log directory.")
    if reading.begin:
        notes.append(
            f"What was read begins at offset {reading.begin}: rules that were made before it are missing. Give the "
            "directory instead."
        )
    users = sorted({user for user, _ in credentials})
    return KnownRules(f"{name} up to offset {reading.end}", list(rules.items()), reading.brought, users, notes=notes)


def _locate(directory: Path, reading: AclReading) -> None:
    for path in sorted(directory.glob("*.log")):
        with mapped(path) as data:
            reading.locate(data)


def _catch_up(source: Source, reading: AclReading, config: ClientConfig | None = None) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(source.catch_up(reading))
        except (ApiError, ChannelError) as e:
            assert config is not None, "only a cluster refuses"
            raise CliError(explain(e, config, "ClusterAction on the cluster")) from e
        except ProtocolError as e:
            raise CliError(f"{source.name}: {e}.") from None
        finally:
            runner.run(source.close())


@contextmanager
def _no_collector() -> Iterator[None]:
    """Take in many rules without the collector going over them again and again: all of them stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def principal_of(user: str) -> str:
    """Give the principal of a SCRAM user."""
    return f"{USER_TYPE}:{user}"
