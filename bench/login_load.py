"""Log-ins and renewals of sessions from one process: how many a second a node takes.

`python -m bench.login_load` reads a `LoginLoad` as JSON and prints a `LoginRate` as JSON. Log-ins go as Java's clients
do it: connect, TLS where it is asked for, ApiVersions, SaslHandshake, the tokens; then the connection is closed and
the next one takes its place. Renewals (KIP-368) go round many open connections, none of which renews more often than
a server lets it: once a second.

The load is to cost little, so everything that can be is worked out beforehand: frames, the SCRAM client's nonce, and
for each salt and number of iterations the keys of the password. What is left is one HMAC and a few system calls.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import resource
import select
import socket
import ssl
import struct
import sys
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final

from barnabas.core.sasl.mechanisms.oauthbearer import OAuthBearerClient
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, ScramAlgorithm, salt_password
from barnabas.core.sasl.session import LEAST_INTERVAL_MS
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from bench.processor import processor_seconds
from bench.requests import RequestsError, frame_of

TLS: Final = "TLS"
"""Stands for a mechanism where nothing is asked for but a TLS connection with a certificate of the client's."""
_LENGTH: Final = struct.Struct(">i")
_AUTHENTICATE_VERSION: Final = 2
_NONCE: Final = "a nonce that is always the same".replace(" ", "-")
_SERVER_FIRST: Final = re.compile(rb"r=([^,]+),s=([^,]+),i=([0-9]+)")
_TIMEOUT_S: Final = 30
_INTERVAL_S: Final = LEAST_INTERVAL_MS / 1000 + 0.02
"""How long a connection waits before it renews its session again: a little more than servers want."""


@dataclass(frozen=True, slots=True)
class LoginLoad:
    """What to do. pid: the node's; mechanism: SASL's, or TLS; secret: password, or bearer token; ca, certificate, key:
    PEM files, where TLS is wanted; under_way: so many at once; connections: to renew sessions on, 0 for log-ins."""

    port: int
    pid: int
    mechanism: str
    seconds: float
    warm_up_s: float
    under_way: int
    user: str = ""
    secret: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    connections: int = 0


@dataclass(frozen=True, slots=True)
class LoginRate:
    """What it gave. count: log-ins, or renewals; node_cpu_s: the node's processor time meanwhile; busy: the part of the
    time in which the load had a processor; starved: the part in which fewer renewals than wanted were under way,
    because no connection might renew its session yet."""

    count: int
    seconds: float
    node_cpu_s: float
    busy: float
    starved: float

    @property
    def per_second(self) -> float:
        """Give how many there were a second."""
        return self.count / self.seconds


Script = Generator[bytes, bytes, None]
"""What a connection does: gives frames to send and gets the answers, without their lengths."""


def main() -> int:
    """Run the load that is asked for on the standard input."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = LoginLoad(**json.load(sys.stdin))
    driver = Driver(load)
    rate = driver.renew() if load.connections else driver.log_in()
    print(json.dumps(asdict(rate)))
    return 0


class _Peer:
    """One connection. then: what happens when its script is over."""

    __slots__ = ("received", "script", "socket", "then")

    def __init__(self, connection: socket.socket, script: Script, then: Callable[[_Peer], None]) -> None:
        self.socket = connection
        self.script = script
        self.then = then
        self.received = b""


class Driver:
    """The connections of one load."""

    def __init__(self, load: LoginLoad) -> None:
        self._load = load
        self._address = ("127.0.0.1", load.port)
        self._poll = select.epoll()
        self._peers: dict[int, _Peer] = {}
        self._context = _context(load)
        self._tokens = tokens_of(load.mechanism, load.user, load.secret)
        self._handshake = frame_of(SaslHandshakeRequest(mechanism=load.mechanism), 1)
        self._versions = frame_of(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
        self._done = 0
        self._under_way = 0
        self._starved_s = 0.0
        self._waiting: deque[tuple[float, _Peer]] = deque()
        """Whose session may be renewed next, and from when on, the earliest first."""

    def log_in(self) -> LoginRate:
        """Log in again and again."""
        for _ in range(self._load.under_way):
            self._connect(self._logged_in)
        return self._measure(self._take_answers)

    def renew(self) -> LoginRate:
        """Log in on many connections, then renew their sessions."""
        wanted = self._load.connections
        while len(self._waiting) < wanted:
            while len(self._peers) < wanted and len(self._peers) - len(self._waiting) < self._load.under_way:
                self._connect(self._entered)
            self._take_answers()
        return self._measure(self._renew_some)

    def _measure(self, turn: Callable[[], None]) -> LoginRate:
        clock = time.perf_counter
        until = clock() + self._load.warm_up_s
        while clock() < until:
            turn()
        done, starved_s = self._done, self._starved_s
        begin, busy_s, cpu_s = clock(), time.process_time(), processor_seconds(self._load.pid)
        until = begin + self._load.seconds
        while clock() < until:
            turn()
        seconds = clock() - begin
        return LoginRate(
            self._done - done,
            seconds,
            processor_seconds(self._load.pid) - cpu_s,
            (time.process_time() - busy_s) / seconds,
            (self._starved_s - starved_s) / seconds,
        )

    def _renew_some(self) -> None:
        now = time.perf_counter()
        while self._under_way < self._load.under_way and self._waiting and self._waiting[0][0] <= now:
            _, peer = self._waiting.popleft()
            self._under_way += 1
            peer.script, peer.then = self._renewal(), self._renewed
            self._send(peer, next(peer.script))
        if self._under_way == self._load.under_way or not self._waiting:
            self._take_answers()
            return
        self._take_answers(max(0.0, self._waiting[0][0] - now))
        self._starved_s += time.perf_counter() - now

    def _entered(self, peer: _Peer) -> None:
        self._waiting.append((time.perf_counter() + _INTERVAL_S, peer))

    def _renewed(self, peer: _Peer) -> None:
        # Servers count from one handshake to the next, which they may get to late: nothing is too early from the end.
        self._entered(peer)
        self._under_way -= 1
        self._done += 1

    def _logged_in(self, peer: _Peer) -> None:
        self._done += 1
        fd = peer.socket.fileno()
        self._poll.unregister(fd)
        del self._peers[fd]
        peer.socket.close()
        self._connect(self._logged_in)

    # --- connections

    def _connect(self, then: Callable[[_Peer], None]) -> None:
        connection = socket.create_connection(self._address, _TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        if self._context is not None:
            connection = self._context.wrap_socket(
                connection, server_hostname=self._address[0], do_handshake_on_connect=False
            )
        peer = _Peer(connection, self._login(), then)
        self._peers[connection.fileno()] = peer
        self._poll.register(connection.fileno(), select.EPOLLIN)
        if self._context is None:
            self._send(peer, next(peer.script))
        else:
            self._shake(peer)

    def _shake(self, peer: _Peer) -> None:
        """Go on with the TLS handshake; when it is over, the script begins."""
        assert isinstance(peer.socket, ssl.SSLSocket)
        try:
            peer.socket.do_handshake()
        except ssl.SSLWantReadError:
            return
        self._send(peer, next(peer.script))

    def _send(self, peer: _Peer, frame: bytes) -> None:
        if peer.socket.send(frame) != len(frame):
            raise RequestsError("a request of a log-in does not fit into the socket's buffer")

    def _take_answers(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Take what has come on all connections; without a limit of one's own it is an error when nothing does."""
        events = self._poll.poll(timeout_s)
        if not events and timeout_s == _TIMEOUT_S:
            raise RequestsError(f"no answer on any connection for {_TIMEOUT_S} seconds")
        for fd, _ in events:
            self._take(self._peers[fd])

    def _take(self, peer: _Peer) -> None:
        if self._context is not None and not peer.received and _shaking(peer.socket):
            self._shake(peer)
            return
        while True:
            try:
                more = peer.socket.recv(4096)
            except (BlockingIOError, ssl.SSLWantReadError):
                return
            if not more:
                raise RequestsError("the node closed a connection of the load")
            received = peer.received + more
            size = _LENGTH.unpack_from(received)[0] + 4 if len(received) >= 4 else 4
            if len(received) >= size > 4:
                peer.received = b""
                try:
                    self._send(peer, peer.script.send(received[4:]))
                except StopIteration:
                    peer.then(peer)
                return
            peer.received = received

    # --- what is said

    def _login(self) -> Script:
        answer = yield self._versions
        _raise_for(answer[4:6])
        if self._load.mechanism != TLS:
            yield from self._renewal()

    def _renewal(self) -> Script:
        answer = yield self._handshake
        _raise_for(answer[4:6])
        yield from self._tokens()


def _shaking(connection: socket.socket) -> bool:
    return isinstance(connection, ssl.SSLSocket) and connection.version() is None


def _context(load: LoginLoad) -> ssl.SSLContext | None:
    if not load.ca:
        return None
    context = ssl.create_default_context(cafile=load.ca)
    # The node's work is measured; ours is to be small.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if load.certificate:
        context.load_cert_chain(load.certificate, load.key)
    return context


# --- mechanisms


def tokens_of(mechanism: str, user: str, secret: str) -> Callable[[], Script]:
    """Give what goes to a server after the handshake."""
    if mechanism in ALGORITHMS:
        return _Scram(ALGORITHMS[mechanism], user, secret).tokens
    if mechanism == "OAUTHBEARER":
        return _only(OAuthBearerClient(secret).first())
    return _only(f"\0{user}\0{secret}".encode())


def _only(token: bytes) -> Callable[[], Script]:
    frame = _authenticate(token)

    def tokens() -> Script:
        answer = yield frame
        _raise_for(answer[5:7])

    return tokens


class _Scram:
    """The client's half of SCRAM with a nonce that is always the same, which no server can know."""

    def __init__(self, algorithm: ScramAlgorithm, user: str, password: str) -> None:
        self._algorithm = algorithm
        self._password = password
        self._bare = f"n={user},r={_NONCE}".encode()
        self._first = _authenticate(b"n,," + self._bare)
        self._keys = cache(self._derive)

    def _derive(self, salt: bytes, iterations: int) -> tuple[int, bytes]:
        """Give ClientKey, as a number, and StoredKey."""
        salted = salt_password(self._algorithm, self._password, b64decode(salt), iterations)
        client_key = hmac.digest(salted, b"Client Key", self._algorithm.digest)
        return int.from_bytes(client_key, "big"), hashlib.new(self._algorithm.digest, client_key).digest()

    def tokens(self) -> Script:
        answer = yield self._first
        _raise_for(answer[5:7])
        match = _SERVER_FIRST.search(answer)
        if match is None:
            raise RequestsError(f"no first message of a SCRAM server: {answer!r}")
        nonce, salt, iterations = match.groups()
        client_key, stored = self._keys(salt, int(iterations))
        final = b"c=biws,r=" + nonce
        signature = hmac.digest(stored, b",".join((self._bare, match[0], final)), self._algorithm.digest)
        proof = (client_key ^ int.from_bytes(signature, "big")).to_bytes(self._algorithm.digest_bytes, "big")
        answer = yield _authenticate(final + b",p=" + b64encode(proof))
        _raise_for(answer[5:7])


def _authenticate(token: bytes) -> bytes:
    """Give the frame of a SaslAuthenticate request."""
    size = len(token) + 1
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))
    if size >= 1 << 14:
        raise ValueError(f"a token of {len(token)} bytes is too large for this load")
    body = _AUTHENTICATE_HEADER + length + token + b"\0"
    return _LENGTH.pack(len(body)) + body


_AUTHENTICATE_HEADER: Final = frame_of(SaslAuthenticateRequest(), _AUTHENTICATE_VERSION)[4:-2]
"""All of the request that comes before the token: without its length, of an empty token, and the tagged fields."""


def _raise_for(code: bytes) -> None:
    if code != b"\0\0":
        raise RequestsError(f"error {int.from_bytes(code, 'big')} at a log-in")


if __name__ == "__main__":
    sys.exit(main())
