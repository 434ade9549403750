"""`barnabas features upgrade | downgrade | disable`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from barnabas.cli.connection import (
    Bootstrap,
    BootstrapController,
    CommandConfig,
    Connection,
    pairs,
    report_failures,
    run_admin,
)
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.client.admin.nodes import FeatureUpdate, UpgradeType
from barnabas.client.config import ClientConfig
from barnabas.model.features import FEATURES, METADATA_VERSION, MetadataVersion

Feature = Annotated[list[str] | None, typer.Option(metavar="NAME=LEVEL", help="A feature and its new level.")]
Metadata = Annotated[str | None, typer.Option(help="The new metadata.version, such as 4.3-IV0.")]
Release = Annotated[str | None, typer.Option(help="All features at the levels of this release, such as 4.3.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask whether it would work, and change nothing.")]
Unsafe = Annotated[bool, typer.Option("--unsafe", help="Even if metadata is lost on the way.")]


def upgrade(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    release_version: Release = None,
    metadata: Metadata = None,
    feature: Feature = None,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Raise feature levels.

    Examples:

      barnabas features --bootstrap-server localhost:9092 upgrade --release-version 4.3 --dry-run
    """
    updates = _updates(release_version, metadata, feature, UpgradeType.UPGRADE)
    _change(
        Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx),
        updates,
        dry_run,
        "upgraded",
        output,
    )


def downgrade(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    release_version: Release = None,
    metadata: Metadata = None,
    feature: Feature = None,
    unsafe: Unsafe = False,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Lower feature levels.

    Examples:

      barnabas features --bootstrap-server localhost:9092 downgrade --feature share.version=0
    """
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    updates = _updates(release_version, metadata, feature, kind)
    _change(
        Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx),
        updates,
        dry_run,
        "downgraded",
        output,
    )


def disable(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    feature: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A feature to disable.")] = None,
    unsafe: Unsafe = False,
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Disable features.

    Examples:

      barnabas features --bootstrap-server localhost:9092 disable --feature share.version
    """
    if not feature:
        raise CliError("Say what to disable: --feature NAME.")
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    updates = [FeatureUpdate(name, 0, kind) for name in feature]
    _change(
        Connection(bootstrap_server, bootstrap_controller, command_config).config(ctx),
        updates,
        dry_run,
        "disabled",
        output,
    )


def _updates(
    release: str | None, metadata: str | None, features: Sequence[str] | None, kind: UpgradeType
) -> list[FeatureUpdate]:
    if release is not None and (metadata is not None or features):
        raise CliError("--release-version says it all: leave --metadata and --feature out.")
    levels: dict[str, int] = {}
    if release is not None:
        version = _metadata_version(release)
        levels[METADATA_VERSION] = int(version)
        # A feature that the release does not have is lowered to 0; there is nothing to raise.
        lowered = kind is not UpgradeType.UPGRADE
        levels |= {f.name: f.default_level(version) for f in FEATURES if lowered or f.default_level(version) > 0}
    if metadata is not None:
        levels[METADATA_VERSION] = int(_metadata_version(metadata))
    for name, level in pairs(features, "--feature").items():
        if not level.isdigit():
            raise CliError(f"--feature {name}={level}: want a number.")
        levels[name] = int(level)
    if not levels:
        raise CliError("Say what to change: --release-version, --metadata or --feature.")
    return [FeatureUpdate(name, level, kind) for name, level in levels.items()]


def _metadata_version(text: str) -> MetadataVersion:
    try:
        return MetadataVersion.parse(text)
    except ValueError as e:
        raise CliError(f"{e}.") from None


def _change(
    config: ClientConfig, updates: Sequence[FeatureUpdate], dry_run: bool, verb: str, output: OutputFormat
) -> None:
    needs = "Alter on the cluster"
    results = run_admin(config, lambda a: a.update_features(updates, validate_only=dry_run), needs=needs)
    report_failures({f"feature {name}": error for name, error in results.items()}, config, needs)
    said = f"could be {verb}" if dry_run else verb
    rows: list[dict[str, Any]] = [{"feature": u.feature, "level": u.level, "result": said} for u in updates]
    show(rows, output)
