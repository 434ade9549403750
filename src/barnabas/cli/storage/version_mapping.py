"""`barnabas storage version-mapping`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.errors import CliError
from barnabas.model.features import FEATURES, LATEST_METADATA_VERSION, METADATA_VERSION, MetadataVersion

ReleaseVersion = Annotated[
    str,
    typer.Option("--release-version", "-r", help="The release or metadata version to look up, for example 4.3."),
]


def version_mapping(release_version: ReleaseVersion = str(LATEST_METADATA_VERSION)) -> None:
    """Print the feature levels that belong to an Apache Kafka release."""
    try:
        version = MetadataVersion.parse(release_version, unstable=True)
    except ValueError as e:
        raise CliError(str(e)) from None
    typer.echo(f"{METADATA_VERSION}={int(version)} ({release_version})")
    for feature in FEATURES:
        typer.echo(f"{feature.name}={feature.default_level(version)}")
