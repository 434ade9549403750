"""An issuer of tokens: keys, signed tokens, and a small HTTP server that gives both away."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc.jwk import ECKey, KeySet, RSAKey

ISSUER, AUDIENCE = "https://issuer.test", "kafka"
Key = RSAKey | ECKey


@dataclass(frozen=True)
class In:
    """A time in a token's claims, seconds from when the token is made, which may be long after a test was collected."""

    seconds: float


class Issuer:
    """Signs for anybody who asks, with RS256 or ES256 as its newest key is."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.asked: list[dict[str, Any]] = []
        """What came to the token endpoint: the form, with the Authorization header under its name."""
        self.fetched = 0
        """How often the keys were."""
        self.lifetime_s = 3600
        self.add_key("first")

    def add_key(self, key_id: str, *, curve: bool = False) -> None:
        """Sign with a new key from now on."""
        if curve:
            self.keys.append(ECKey.generate_key("P-256", {"kid": key_id}))
        else:
            self.keys.append(RSAKey.generate_key(2048, {"kid": key_id}))

    def jwks(self) -> str:
        """Give the public keys."""
        return json.dumps(KeySet(list(self.keys)).as_dict(private=False))

    def token(self, subject: str = "alice", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Give a good token; claims: what to change, None to leave one out."""
        key = self.keys[-1]
        good = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": In(0), "exp": In(self.lifetime_s)}
        said = at_once({**good, **claims})
        algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
        protected = {"alg": algorithm, "kid": key.kid, "typ": "JWT", **(header or {})}
        head = unsigned(protected, {name: value for name, value in said.items() if value is not None})[:-1]
        return f"{head}.{_text(_signature(key, head.encode()))}"

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[str]:
        """Give the URL of a server with `/keys` and `/token`."""
        server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetched += 1
                self._send(issuer.jwks())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                authorization = self.headers.get("Authorization", "")
                issuer.asked.append({**{k: v[0] for k, v in form.items()}, "Authorization": authorization})
                client = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")[0]
                token = issuer.token(client)
                self._send(json.dumps({"access_token": token, "expires_in": issuer.lifetime_s, "token_type": "Bearer"}))

            def _send(self, text: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler


def at_once(claims: dict[str, Any]) -> dict[str, Any]:
    """Give claims with each `In` as the time that it is from now on."""
    now = int(time.time())
    return {name: now + value.seconds if isinstance(value, In) else value for name, value in claims.items()}


def _signature(key: Key, message: bytes) -> bytes:
    # By hand, because a library refuses to sign what a forger would.
    private = key.private_key
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(message, padding.PKCS1v15(), hashes.SHA256())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(private.sign(message, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: str = "") -> str:
    """Give a token that nobody signed, or that ends with a signature of one's own."""
    parts = (_text(json.dumps(part).encode()) for part in (header, claims))
    return ".".join((*parts, signature))
