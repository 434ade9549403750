"""One of two nodes that get the same requests: connections by principal, and the answers in the order they came."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import Uuid
from barnabas.wire.api_keys import row_of
from barnabas.wire.errors import ProtocolError
from barnabas.wire.header import RequestHeader, decode_response_header, encode_request_header
from barnabas.wire.message import Message, decode, encode_into
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.primitives import Records

from .requests import request

ADMIN: Final = "admin"
"""A super user."""
NOBODY: Final = "nobody"
"""A user that no rule speaks of."""
TIMEOUT_S: Final = 60
CLOSED: Final = "the connection was closed"
SILENT: Final = "no answer, as asked"


@dataclass(frozen=True)
class Outcome:
    """What became of one request. answer: the response, or one of CLOSED and SILENT."""

    step: str
    answer: Message | str


@dataclass
class Side:
    """One node. Every `call` is written down, to be compared; `ask` is not.

    passwords: by user, for PLAIN. places: texts of this node's own (ports, paths), and the names they go by.
    """

    name: str
    port: int
    passwords: dict[str, str]
    places: dict[str, str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    asked: set[tuple[int, int]] = field(default_factory=set)
    """The APIs and versions that were ever compared."""

    def __post_init__(self) -> None:
        self._connections: dict[tuple[str, str], Connection] = {}

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def begin(self) -> None:
        """Forget the outcomes of another script, and its connections with their sessions."""
        self.close()
        self.outcomes = []

    def connection(self, user: str = ADMIN, name: str = "") -> Connection:
        """Give the connection of a user, or another one of that name; made, and logged in, when there is none."""
        found = self._connections.get((user, name))
        if found is None or found.closed:
            found = self._connections[user, name] = Connection(self.port)
            found.log_in(user, self.passwords[user])
        return found

    def call(self, asked: Message, version: int = -1, user: str = ADMIN, *, note: str = "", on: str = "") -> Any:
        """Send, write the outcome down and give the answer. version: -1 is the newest; on: a connection's name."""
        chosen = row_of(asked).max_version if version < 0 else version
        answer = self.connection(user, on).exchange(asked, chosen)
        self.note(asked, chosen, user, answer, note)
        return answer

    def note(self, asked: Message, version: int, user: str, answer: Message | str, note: str = "") -> None:
        """Write down an outcome that came about otherwise."""
        self.asked.add((asked.API_KEY, version))
        step = f"{len(self.outcomes)}: {asked.NAME} v{version} as {user} {note}".rstrip()
        self.outcomes.append(Outcome(step, answer))

    def every_version(
        self, make: Message | Callable[[int], Message], *, users: tuple[str, ...] = (ADMIN, NOBODY), note: str = ""
    ) -> None:
        """Call in every version in which the request can be said, as each of the users."""
        sample = make if isinstance(make, Message) else make(-1)
        row = row_of(sample)
        said = 0
        for version in range(row.min_version, row.max_version + 1):
            asked = make if isinstance(make, Message) else make(version)
            try:
                encode_into(asked, version, [])
            except ProtocolError:
                continue
            said += 1
            for user in users:
                self.call(asked, version, user, note=note)
        assert said, f"no version of {row.name} can say this"

    def ask(self, asked: Message, version: int = -1, user: str = ADMIN) -> Any:
        """Send without writing it down: what belongs to the preparation."""
        return self.connection(user).exchange(asked, row_of(asked).max_version if version < 0 else version)

    def until(self, asked: Message, wanted: Callable[[Any], object], version: int = -1, user: str = ADMIN) -> Any:
        """Ask until the answer is as wanted: nobody says when a broker has taken up a change."""
        end = time.monotonic() + TIMEOUT_S
        while not wanted(answer := self.ask(asked, version, user)):
            assert time.monotonic() < end, f"{self.name}: {asked.NAME} still gives {answer}"
            time.sleep(0.005)
        return answer

    def settle(self) -> None:
        """Return when the broker has taken up every change answered before.

        A broker learns of changes in their order, but in lumps: once it shows the first mark, what came before is
        at least on its way, and the second mark comes in a later lump.
        """
        entity = [{"entity_type": "user", "entity_name": "settled"}]
        asked = {"entity_type": "user", "match_type": 0, "match": "settled"}
        shown = request("DescribeClientQuotas", components=[asked])
        for remove in (False, True):
            ops = [{"key": "request_percentage", "value": 1000.0, "remove": remove}]
            self.ask(request("AlterClientQuotas", entries=[{"entity": entity, "ops": ops}]))
            self.until(shown, lambda answer: bool(answer.entries) is not remove)  # noqa: B023

    def topic(self, name: str, partitions: int = 1, **configs: str) -> Uuid:
        """Make a topic and wait for it; two underscores in a configuration's name stand for a dot."""
        pairs = [{"name": key.replace("__", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": pairs}
        made = self.ask(request("CreateTopics", topics=[topic], timeout_ms=60_000))
        assert made.topics[0].error_code == 0, made
        self.settle()
        found: Uuid = made.topics[0].topic_id
        return found

    def allow(
        self, user: str, operation: AclOperation, kind: ResourceType, name: str, *, deny: bool = False, pattern: int = 3
    ) -> None:
        """Make a rule and wait for it."""
        rule = {
            "resource_type": int(kind),
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": f"User:{user}",
            "host": "*",
            "operation": int(operation),
            "permission_type": 2 if deny else 3,
        }
        made = self.ask(request("CreateAcls", creations=[rule]))
        assert made.results[0].error_code == 0, made
        self.settle()


class Connection:
    """A blocking connection that speaks through our codec."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("localhost", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = itertools.count(1)
        self.closed = False

    def close(self) -> None:
        """Close it."""
        self.closed = True
        self._socket.close()

    def log_in(self, user: str, password: str) -> None:
        """Authenticate with PLAIN."""
        self.exchange(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{user}\0{password}".encode()
        answer = self.exchange(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert not isinstance(answer, str), answer
        assert answer.error_code == 0, answer

    def exchange(self, asked: Message, version: int) -> Any:
        """Send a request and give its response, or CLOSED."""
        self.send(asked, version)
        return self.receive(asked, version)

    def send(self, asked: Message, version: int) -> None:
        """Send a request; its answer is to be received later."""
        parts: list[Records] = []
        encode_into(asked, version, parts)
        body = b"".join(p for p in parts if isinstance(p, bytes | bytearray | memoryview))
        self.send_body(asked.API_KEY, version, body)

    def send_body(self, api_key: int, version: int, body: bytes) -> None:
        """Send any bytes as the body of a request."""
        parts: list[Records] = []
        header = RequestHeader(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=next(self._correlation),
            client_id="side-by-side",
        )
        encode_request_header(header, parts)
        head = b"".join(p for p in parts if isinstance(p, bytes | bytearray | memoryview))
        try:
            self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        except ConnectionError:
            self.close()

    def receive(self, asked: Message, version: int) -> Any:
        """Give the answer to the oldest request without one, or CLOSED."""
        reply = self.receive_frame()
        if reply is None:
            return CLOSED
        row = row_of(asked)
        _, at = decode_response_header(row.key, version, reply)
        return decode(row.response, version, reply, at)

    def receive_frame(self) -> bytes | None:
        """Give the next frame, None when there is no more."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, size: int) -> bytes | None:
        if self.closed:
            return None
        out = bytearray()
        while len(out) < size:
            try:
                chunk = self._socket.recv(size - len(out))
            except ConnectionError:
                chunk = b""
            if not chunk:
                self.close()
                return None
            out += chunk
        return bytes(out)
