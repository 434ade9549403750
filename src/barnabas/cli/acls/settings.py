"""Super users and the default for resources without a rule: from flags, from a file, from a node that tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli.acls.sources import ALLOW_EVERYONE, AUTHORIZER, SUPER_USERS, KnownRules
from barnabas.cli.errors import CliError
from barnabas.client.config import load_properties_file
from barnabas.core.authorizer.standard import parse_super_users

SuperUsers = Annotated[
    str | None,
    typer.Option("--super-users", metavar="USERS", help="As super.users has them: 'User:admin;User:broker'."),
]
AllowEveryone = Annotated[
    bool | None,
    typer.Option(
        "--allow-everyone-if-no-acl-found/--deny-everyone-if-no-acl-found",
        help="What holds where no rule covers a resource.",
        show_default=False,
    ),
]
ServerProperties = Annotated[
    Path | None,
    typer.Option("--server-properties", metavar="FILE", help="A node's configuration, to take both of these from."),
]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the authorizer is configured with. origins: where each key comes from; notes: what is not known."""

    super_users: frozenset[str]
    allow_everyone: bool
    origins: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """Say it to people."""
        users = "; ".join(sorted(self.super_users)) or "none"
        default = str(self.allow_everyone).lower()
        return [
            f"Super users: {users} ({self.origins[SUPER_USERS]}).",
            f"{ALLOW_EVERYONE}={default} ({self.origins[ALLOW_EVERYONE]}).",
            *self.notes,
        ]

    @property
    def facts(self) -> dict[str, Any]:
        """Say it to programs."""
        return {
            SUPER_USERS: sorted(self.super_users),
            ALLOW_EVERYONE: self.allow_everyone,
            "origins": dict(self.origins),
            "notes": list(self.notes),
        }


def settings_of(
    super_users: str | None, allow_everyone: bool | None, server_properties: Path | None, known: KnownRules
) -> Settings:
    """Give the settings: a flag wins over the file, the file over what the node tells; CliError for a bad value."""
    flags = {SUPER_USERS: super_users, ALLOW_EVERYONE: None if allow_everyone is None else str(allow_everyone)}
    file = None if server_properties is None else load_properties_file(server_properties)
    finder = _Finder(flags, file, str(server_properties), known)
    users = finder.find(SUPER_USERS, "--super-users", "")
    everyone = finder.find(ALLOW_EVERYONE, "--allow-everyone-if-no-acl-found", "false")
    finder.look_at_authorizer()
    try:
        principals = parse_super_users(users)
    except ValueError as e:
        raise CliError(f"{e}.") from None
    return Settings(principals, everyone.strip().lower() == "true", finder.origins, tuple(finder.notes))


class _Finder:
    def __init__(
        self, flags: Mapping[str, str | None], file: Mapping[str, str] | None, path: str, known: KnownRules
    ) -> None:
        self._flags = flags
        self._file = file
        self._path = path
        self._known = known
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []

    def find(self, key: str, flag: str, default: str) -> str:
        given = self._flags[key]
        if given is not None:
            self.origins[key] = flag
            return given
        if self._file is not None:
            self.origins[key] = self._path if key in self._file else f"the default: {self._path} does not set it"
            return self._file.get(key, default)
        told = self._known.settings
        node = self._known.node
        if told is None:
            self.origins[key] = "assumed"
            self.notes.append(f"{key} is not told by this source: give {flag} or --server-properties if it is set.")
        elif key not in told:
            self.origins[key] = f"the default: {node} does not set it"
        else:
            value = told[key]
            if value is not None:
                self.origins[key] = node
                return value
            self.origins[key] = "assumed"
            self.notes.append(
                f"{node.capitalize()} sets {key} and keeps the value to itself: give {flag} or --server-properties."
            )
        return default

    def look_at_authorizer(self) -> None:
        settings = self._file if self._file is not None else self._known.settings
        if settings is not None and not settings.get(AUTHORIZER):
            who = self._path if self._file is not None else self._known.node
            self.notes.append(
                f"{who} has no {AUTHORIZER}: such a node allows everything, and this is what the rules would say."
            )
