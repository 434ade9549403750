"""`barnabas storage feature-dependencies`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.errors import CliError
from barnabas.model.features import FEATURE_BY_NAME, METADATA_VERSION, MetadataVersion

Features = Annotated[
    list[str],
    typer.Option("--feature", "-f", help="A feature and its level, for example metadata.version=30; repeatable."),
]


def feature_dependencies(feature: Features) -> None:
    """Print what a level of a feature needs of other features."""
    for item in feature:
        typer.echo(_described(item))


def _described(item: str) -> str:
    name, equals, text = (part.strip() for part in item.partition("="))
    if not equals:
        raise CliError(f"{item} is not FEATURE=LEVEL, for example group.version=1")
    try:
        level = int(text)
    except ValueError:
        raise CliError(f"{item}: {text!r} is not a level") from None
    if name == METADATA_VERSION:
        return f"{name}={level} ({_metadata_version(level)}) has no dependencies."
    if name not in FEATURE_BY_NAME:
        raise CliError(f"there is no feature {name}")
    try:
        needs = FEATURE_BY_NAME[name].at(level).needs
    except ValueError as e:
        raise CliError(str(e)) from None
    if not needs:
        return f"{name}={level} has no dependencies."
    return "\n".join([f"{name}={level} requires:", *(_needed(other, least) for other, least in needs.items())])


def _metadata_version(level: int) -> MetadataVersion:
    try:
        return MetadataVersion(level)
    except ValueError:
        raise CliError(f"Unknown {METADATA_VERSION} {level}") from None


def _needed(name: str, level: int) -> str:
    release = f" ({_metadata_version(level)})" if name == METADATA_VERSION else ""
    return f"    {name}={level}{release}"
