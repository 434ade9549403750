"""Where the ensemble is, below which znode we live, and how we prove who we are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.model.config import ConfigError

if TYPE_CHECKING:
    from barnabas.net.tls import ClientTls
    from barnabas.net.zookeeper.logins import Login

DEFAULT_PORT: Final = 2181
DEFAULT_TIMEOUT_MS: Final = 18_000


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """One client's settings. They belong to the client, not to the process: two clients may differ in all of them.

    servers: host and port of each; chroot: empty, or a path such as /kafka; session_timeout_ms: asked for, the server
    has bounds of its own; connection_timeout_ms: how long a start, or a call without a connection, waits;
    login: None for nobody; tls: None for plain text.
    """

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""
    session_timeout_ms: int = DEFAULT_TIMEOUT_MS
    connection_timeout_ms: int = DEFAULT_TIMEOUT_MS
    login: Login | None = field(default=None, repr=False)
    tls: ClientTls | None = field(default=None, repr=False)


def parse_connect(text: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """Give servers and chroot of a `zookeeper.connect`, as `a:2181,[::1]:2182/kafka`; ConfigError when it is none."""
    hosts, slash, path = text.strip().partition("/")
    chroot = "" if not path else check_path(slash + path.rstrip("/"), f"zookeeper.connect={text}")
    servers = tuple(_server(one.strip(), text) for one in hosts.split(",") if one.strip())
    if not servers:
        raise ConfigError(f"zookeeper.connect={text}: want host:port, several separated by commas, and then a chroot")
    return servers, chroot


def check_path(path: str, whose: str) -> str:
    """Give the path of a znode back; ConfigError, which begins with `whose`, when it is none."""
    parts = path.split("/")[1:]
    if not path.startswith("/") or any(part in ("", ".", "..") or "\x00" in part for part in parts):
        raise ConfigError(f"{whose}: {path!r} is not the path of a znode")
    return path


def _server(text: str, whole: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"zookeeper.connect={whole}: {text!r} is not host:port")
    return host, int(port)
