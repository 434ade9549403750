"""Who may use the REST API: HTTP basic authentication from a file of users, when it is asked for.

Internal requests carry a signature and no password; they are let through to where the signature is checked. In a
group whose protocol does not sign, that path is open, which is said once at start (H-29).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from barnabas.connect.rest.errors import RestError
from barnabas.model.config import ConfigError, parse_properties

_CHALLENGE: Final[Mapping[str, str]] = {hdrs.WWW_AUTHENTICATE: 'Basic realm="Kafka Connect"'}


class BasicAuth:
    """Users and passwords, one a line as `user=password`; the file is read again when it has changed."""

    def __init__(self, file: Path) -> None:
        """ConfigError when the file cannot be read."""
        self._file = file
        self._stamp: tuple[int, int] | None = None
        self._users: Mapping[str, str] = {}
        self._load()

    def check(self, request: web.Request) -> None:
        """Return when the request names a user with the right password; RestError 401 when not."""
        self._load()
        user, password = _credentials(request.headers.get(hdrs.AUTHORIZATION, ""))
        wanted = self._users.get(user)
        # Compared for unknown users too, so that the time taken does not tell who is known.
        right = hmac.compare_digest(password.encode(), (wanted or "").encode())
        if wanted is None or not right:
            raise RestError(401, "User cannot access the resource.", _CHALLENGE)

    def own(self) -> dict[str, str]:
        """Give what this worker shows when it asks another by itself: the first user of the file."""
        self._load()
        for user, password in self._users.items():
            return {hdrs.AUTHORIZATION: "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
        return {}

    def _load(self) -> None:
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                self._users = parse_properties(self._file.read_text(encoding="utf-8"))
                self._stamp = stamp
        except OSError as e:
            if self._stamp is None:
                raise ConfigError(f"the file of REST users, {self._file}, cannot be read: {e.strerror}") from None


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return user, password
