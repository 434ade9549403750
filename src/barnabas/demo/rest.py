"""The REST API of the demonstration's workers: https with the node's authority, and a password."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from barnabas.client.config import load_properties_file
from barnabas.net.dev_ca import write_private

_USER: Final = "demo"
_ANSWER_S: Final = 60.0


class UnreachableError(Exception):
    """Nobody answers there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """status: HTTP's; value: the JSON, None where there is none."""

    status: int
    value: Any

    @property
    def message(self) -> str:
        """Give what a refusal says."""
        return str(self.value.get("message", "")) if isinstance(self.value, dict) else ""


@dataclass(frozen=True, slots=True)
class Rest:
    """ca: the certificate to trust; users: the file with the one user and his password, mode 0600."""

    ca: Path
    users: Path

    def ensure_user(self) -> None:
        """Make the user, unless there is one: workers of an earlier run may still know his password."""
        if not self.users.exists():
            write_private(self.users, f"{_USER}={secrets.token_urlsafe(24)}\n".encode())

    def ask(
        self, url: str, method: str = "GET", body: object = None, *, login: bool = True, timeout_s: float = _ANSWER_S
    ) -> Answer:
        """Give the answer to a request, whatever it is; UnreachableError. login: show the password. Proxies are not
        for this: workers are on this machine."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if login:
            user = f"{_USER}:{load_properties_file(self.users)[_USER]}"
            headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.ca)))
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
            with opener.open(request, timeout=timeout_s) as response:
                return Answer(response.status, _parsed(response.read()))
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, _parsed(refused.read()))
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"{url}: {error}") from None


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
