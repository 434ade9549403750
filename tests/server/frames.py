"""A client that speaks in frames: what a test wants on the wire, and nothing that it did not ask for."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.header import decode_response_header, encode_request_header
from barnabas.wire.message import decode, encode_into
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.primitives import Records

LIMIT_S = 60
OPEN, LOGIN = "OPEN", "LOGIN"
"""Listeners of `several_listeners`: PLAINTEXT for anybody, and SASL_PLAINTEXT with PLAIN for alice and root."""


def several_listeners(**settings: str) -> dict[str, str]:
    """Give settings for a Cluster that can be spoken to without TLS as well; dots are written as `__`."""
    ports = free_ports(4)
    users = 'user_alice="alice-secret" user_root="root-secret"'
    return {
        "listeners": f"SASL_SSL://127.0.0.1:{ports[0]},{OPEN}://127.0.0.1:{ports[1]},{LOGIN}://127.0.0.1:{ports[2]},"
        f"CONTROLLER://127.0.0.1:{ports[3]}",
        "listener.security.protocol.map": f"SASL_SSL:SASL_SSL,{OPEN}:PLAINTEXT,{LOGIN}:SASL_PLAINTEXT,"
        "CONTROLLER:SASL_SSL",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[3]}",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f"required {users};",
        "super.users": "User:admin;User:root",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def port_of(cluster: Cluster, listener: str) -> int:
    """Give the port of a listener by its name."""
    return next(s.port for s in cluster.node.listeners if s.endpoint.listener_name == listener)


def newest(request: Any) -> int:
    """Give the newest version that Kafka calls stable."""
    return API_KEYS[request.API_KEY].max_version


def decoded(request: Any, version: int, frame: bytes) -> Any:
    """Give the message in a frame that answers such a request."""
    _, at = decode_response_header(request.API_KEY, version, frame)
    return decode(API_KEYS[request.API_KEY].response, version, frame, at)


class FramePeer:
    """One connection. Use as a context manager."""

    def __init__(self, port: int, *, ca: Path | None = None, source: str = "127.0.0.1") -> None:
        """ca: speak TLS and trust it; source: the address to come from."""
        plain = socket.create_connection(("127.0.0.1", port), LIMIT_S, source_address=(source, 0))
        self.socket: socket.socket = plain
        if ca is not None:
            self.socket = ssl.create_default_context(cafile=str(ca)).wrap_socket(plain, server_hostname="127.0.0.1")
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_raw(self, frame: bytes) -> None:
        """Send a frame."""
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def send(self, request: Any, version: int | None = None, *, client_id: str | None = "frames") -> int:
        """Send a request; gives its correlation id."""
        self.send_raw(self._frame(request, version, client_id))
        return self._correlation

    def send_together(self, requests: Iterable[Any]) -> None:
        """Send requests in one piece: all of them have left before the first is answered."""
        frames = [self._frame(request, None, "frames") for request in requests]
        self.socket.sendall(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))

    def _frame(self, request: Any, version: int | None, client_id: str | None) -> bytes:
        """Give a request as a frame, numbered after the one before."""
        version = newest(request) if version is None else version
        self._correlation += 1
        header = RequestHeader(
            request_api_key=request.API_KEY,
            request_api_version=version,
            correlation_id=self._correlation,
            client_id=client_id,
        )
        parts: list[Records] = [b""]
        encode_request_header(header, parts)
        encode_into(request, version, parts)
        return b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))

    def receive_raw(self) -> bytes:
        """Give the next frame; ConnectionError when the node has closed."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def receive(self, request: Any, version: int | None = None) -> Any:
        """Give the next answer, as one to such a request, as (correlation id, message)."""
        version = newest(request) if version is None else version
        frame = self.receive_raw()
        return int.from_bytes(frame[:4], "big"), decoded(request, version, frame)

    def call(self, request: Any, version: int | None = None, *, client_id: str | None = "frames") -> Any:
        """Send a request and give its answer."""
        sent = self.send(request, version, client_id=client_id)
        got, answer = self.receive(request, version)
        assert got == sent
        return answer

    def login(self, user: str, password: str | None = None) -> Any:
        """Log in by PLAIN; gives the last answer."""
        self.call(SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0{user}\0{password if password is not None else user + '-secret'}".encode()
        return self.call(SaslAuthenticateRequest(auth_bytes=token))

    def closed(self) -> bool:
        """Wait for the node to close, dropping what it still sends; False when it does not."""
        self.socket.settimeout(LIMIT_S)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def silent(self, seconds: float) -> bool:
        """Say whether nothing comes for that long: no answer, and no end."""
        return not select.select([self.socket], [], [], seconds)[0]

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise ConnectionError(f"closed after {len(found)} of {size} bytes")
            found += piece
        return bytes(found)
