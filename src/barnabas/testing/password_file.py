"""A store of PLAIN's passwords that can change under a running node: a JSON file of user -> password.

`listener.name.<name>.plain.sasl.server.callback.handler.class=barnabas.testing.password_file:PasswordFile`, with
`file="..."` in the listener's JAAS entry. For tests: the file is read at every login.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path


class PasswordFile:
    """Knows what stands in the file at the moment."""

    def __init__(self) -> None:
        self._path = Path()

    def configure(self, configs: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Take the file's path from the JAAS entry."""
        self._path = Path(options["file"])

    def authenticate(self, user: str, password: str) -> bool:
        """Say whether they belong together."""
        known: dict[str, str] = json.loads(self._path.read_text(encoding="utf-8"))
        return user in known and compare_digest(known[user].encode(), password.encode())
