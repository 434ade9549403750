"""Where the REST API listens, and where other workers are told that it does: from a worker's settings."""

from __future__ import annotations

import csv
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final
from urllib.parse import urlsplit

from barnabas.client.config import resolve_references
from barnabas.connect.config import WorkerConfig
from barnabas.model.config import ConfigError
from barnabas.net.tls import ClientTls, ServerTls, TlsConfig

_HTTPS_PREFIX: Final = "listeners.https."
_ADMIN_HTTPS_PREFIX: Final = "admin.listeners.https."


@dataclass(frozen=True, slots=True)
class RestListener:
    """One address. host: "" for all of them. port: 0 for one that is free. public, admin: what it serves."""

    scheme: str
    host: str
    port: int
    public: bool
    admin: bool


def parse_listeners(config: WorkerConfig) -> list[RestListener]:
    """Give the addresses to serve at; ConfigError."""
    apart: list[str] | None = config["admin.listeners"]
    found = [_listener("listeners", url, public=True, admin=apart is None) for url in config["listeners"]]
    return found + [_listener("admin.listeners", url, public=False, admin=True) for url in apart or ()]


def _listener(key: str, url: str, *, public: bool, admin: bool) -> RestListener:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme.lower() not in ("http", "https") or port is None:
        raise ConfigError(f"{key}: {url!r} is not http://HOST:PORT or https://HOST:PORT")
    return RestListener(parts.scheme.lower(), parts.hostname or "", port, public, admin)


def server_context(config: WorkerConfig, listener: RestListener) -> ssl.SSLContext | None:
    """Give the TLS of a listener, None for http; ConfigError when keys are missing or cannot be used.

    `listeners.https.ssl.*` (`admin.listeners.https.ssl.*`) are taken where there are any, else the worker's `ssl.*`.
    """
    if listener.scheme != "https":
        return None
    prefix = _HTTPS_PREFIX if listener.public else _ADMIN_HTTPS_PREFIX
    return ServerTls(TlsConfig.parse(_tls_settings(config, prefix))).context


def client_context(config: WorkerConfig) -> ssl.SSLContext | None:
    """Give the TLS that other workers are asked with, None where no setting of TLS is there."""
    settings = _tls_settings(config, _HTTPS_PREFIX)
    if not any(name.startswith(("ssl.truststore.", "ssl.keystore.")) for name in settings):
        return None
    return ClientTls(TlsConfig.parse(settings)).context


def _tls_settings(config: WorkerConfig, prefix: str) -> dict[str, object]:
    own = {name: resolve_references(text) for name, text in config.with_prefix(prefix).items()}
    if any(name.startswith("ssl.") for name in own):
        return dict(own)
    return {name: resolve_references(text) for name, text in config.properties.items() if name.startswith("ssl.")}


def advertised_url(config: WorkerConfig, bound: Mapping[RestListener, int]) -> str:
    """Give the URL that other workers are told. bound: the ports that the public listeners got. ConfigError."""
    wanted: str | None = config["rest.advertised.listener"]
    public = [each for each in bound if each.public]
    chosen = next((each for each in public if wanted is None or each.scheme == wanted.lower()), None)
    if chosen is None:
        raise ConfigError(f"rest.advertised.listener: {wanted!r}, but listeners has none of that kind")
    host = config["rest.advertised.host.name"] or chosen.host
    if host in ("", "0.0.0.0", "::"):
        host = _this_host()
    port = config["rest.advertised.port"] or bound[chosen]
    return f"{chosen.scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _this_host() -> str:
    return socket.getfqdn()


def response_headers(rules: str) -> dict[str, str]:
    """Give the headers that `response.http.headers.config` adds to every answer.

    `set` and `add` give the text; `setDate` and `addDate` a moment, ms since the epoch.
    """
    found: dict[str, str] = {}
    for rule in next(csv.reader([rules], skipinitialspace=True), []):
        action_and_name, _, value = rule.strip().partition(":")
        action, _, name = action_and_name.partition(" ")
        text = value.strip()
        if action.endswith("Date"):
            text = formatdate(int(text) / 1000, usegmt=True)
        name = name.strip()
        found[name] = f"{found[name]}, {text}" if action.startswith("add") and name in found else text
    return found
