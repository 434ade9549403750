"""One-record produce requests over plain sockets: how many a second, and how long each takes.

A closed loop: every connection has one request under way. The request is made once and of an answer only the error
code is looked at, so that the load costs a few microseconds a request and leaves the rest of the machine to the node.
"""

from __future__ import annotations

import secrets
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.core.sasl.client import SaslClient, SendHandshake, client_mechanism
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.header import RequestHeader, decode_response_header, encode_request_header
from barnabas.wire.message import decode, encode_into
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.record_batch import Record, encode_batch

PRODUCE_VERSION: Final = 9
_LENGTH: Final = struct.Struct(">i")
_TIMEOUT_S: Final = 30


class RequestsError(Exception):
    """A node refused a request of the load."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """What a load gave. seconds: how long it ran."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Give requests per second."""
        return self.requests / self.seconds


def one_record_request(topic: str, partition: int = 0, size: int = 100) -> bytes:
    """Give the frame of a Produce request of one record."""
    now = int(time.time() * 1000)
    batch = encode_batch([Record(0, now, None, b"x" * size, ())])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        ],
    )
    return frame_of(request, PRODUCE_VERSION)


def run(config: Mapping[str, str], topic: str, *, connections: int, seconds: float, size: int = 100) -> Latencies:
    """Keep one Produce request under way on each of `connections` connections for so long."""
    return repeat(config, [one_record_request(topic, size=size)] * connections, _check, seconds=seconds)


def repeat(
    config: Mapping[str, str], frames: Sequence[bytes], check: Callable[[bytes], None], *, seconds: float
) -> Latencies:
    """Send each frame on a connection of its own, again after each answer, for so long. config: librdkafka's spelling.

    check: raises when an answer, its length included, says that the request failed. All good answers are equally long.
    """
    sockets = [connect(config) for _ in frames]
    try:
        if len(sockets) == 1:
            return _alternate(sockets[0], frames[0], check, seconds)
        return _interleave(sockets, frames, check, seconds)
    finally:
        for s in sockets:
            s.close()


def ask_for_brokers(config: Mapping[str, str]) -> int:
    """Connect, log in, ask for metadata; give how many brokers the answer names."""
    connection = connect(config)
    try:
        return len(_call(connection, MetadataRequest(topics=[]), 9).brokers)
    finally:
        connection.close()


def may_see_topic(config: Mapping[str, str], topic: str) -> bool:
    """Connect, log in, ask for a topic's metadata; say whether it is there and may be seen."""
    connection = connect(config)
    try:
        answer = _call(connection, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
        return [found.error_code for found in answer.topics] == [0]
    finally:
        connection.close()


def connect(config: Mapping[str, str]) -> socket.socket:
    """Give a connection that may send requests: TLS and login done where `config` asks for them."""
    host, _, port = config["bootstrap.servers"].rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    protocol = config.get("security.protocol", "PLAINTEXT")
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=config["ssl.ca.location"])
        connection = context.wrap_socket(connection, server_hostname=host)
    if protocol.startswith("SASL"):
        _log_in(connection, config)
    return connection


def _log_in(connection: socket.socket, config: Mapping[str, str]) -> None:
    name = config["sasl.mechanism"]
    mechanism = client_mechanism(name, config["sasl.username"], config["sasl.password"], lambda: secrets.token_hex(12))
    sasl = SaslClient(name, mechanism)
    while sasl.next_request is not None:
        if isinstance(sasl.next_request, SendHandshake):
            shaken = _call(connection, SaslHandshakeRequest(mechanism=sasl.next_request.mechanism), 1)
            sasl.handshake_answered(shaken.error_code, shaken.mechanisms)
        else:
            said = _call(connection, SaslAuthenticateRequest(auth_bytes=sasl.next_request.token), 2)
            sasl.token_answered(said.error_code, said.error_message, bytes(said.auth_bytes))


def _call(connection: socket.socket, request: Any, version: int) -> Any:
    connection.sendall(frame_of(request, version))
    (size,) = _LENGTH.unpack(_exactly(connection, 4))
    frame = _exactly(connection, size)
    _, at = decode_response_header(request.API_KEY, version, frame)
    return decode(API_KEYS[request.API_KEY].response, version, frame, at)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        more = connection.recv(size - len(parts))
        if not more:
            raise RequestsError("the node closed the connection")
        parts += more
    return parts


def frame_of(request: Any, version: int) -> bytes:
    """Give the frame of a request, its length included."""
    header = RequestHeader(
        request_api_key=request.API_KEY, request_api_version=version, correlation_id=1, client_id="bench"
    )
    parts: list[Any] = []
    encode_request_header(header, parts)
    encode_into(request, version, parts)
    body = b"".join(bytes(p) for p in parts)
    return _LENGTH.pack(len(body)) + body


def _check(answer: bytes) -> None:
    _, at = decode_response_header(ProduceRequest.API_KEY, PRODUCE_VERSION, answer, 4)
    response = decode(ProduceResponse, PRODUCE_VERSION, answer, at)
    partition = response.responses[0].partition_responses[0]
    if partition.error_code:
        raise RequestsError(f"error {partition.error_code}: {partition.error_message}")


def _alternate(connection: socket.socket, frame: bytes, check: Callable[[bytes], None], seconds: float) -> Latencies:
    took: list[float] = []
    clock = time.perf_counter
    begin = clock()
    until = begin + seconds
    answer = b""
    send, receive = connection.sendall, connection.recv
    size = 0
    while (sent := clock()) < until:
        send(frame)
        answer = receive(4096)
        took.append(clock() - sent)
        if len(answer) != size:  # every answer is as long as the first, unless it is an error or torn
            size = len(answer)
            check(answer)
    check(answer)
    return _summary(took, clock() - begin)


def _interleave(
    sockets: Sequence[socket.socket], frames: Sequence[bytes], check: Callable[[bytes], None], seconds: float
) -> Latencies:
    took: list[float] = []
    clock = time.perf_counter
    poll = select.epoll()
    by_fd = {s.fileno(): s for s in sockets}
    frame_of_fd = {s.fileno(): frame for s, frame in zip(sockets, frames, strict=True)}
    sent = {}
    for fd, s in by_fd.items():
        s.setblocking(True)  # epoll says when an answer is there; requests are small enough never to block
        poll.register(fd, select.EPOLLIN)
    begin = clock()
    until = begin + seconds
    for fd, s in by_fd.items():
        sent[fd] = clock()
        s.sendall(frame_of_fd[fd])
    size = 0
    answer = b""
    while (now := clock()) < until:
        events = poll.poll(1.0)
        if not events:
            raise RequestsError("no answer on any connection for a second")
        for fd, _ in events:
            s = by_fd[fd]
            answer = s.recv(4096)
            now = clock()
            took.append(now - sent[fd])
            if len(answer) != size:
                size = len(answer)
                check(answer)
            sent[fd] = now
            s.sendall(frame_of_fd[fd])
    poll.close()
    check(answer)
    return _summary(took, clock() - begin)


def _summary(took: list[float], seconds: float) -> Latencies:
    took.sort()
    return Latencies(
        len(took), seconds, took[len(took) // 2] * 1000, took[min(len(took) - 1, int(len(took) * 0.99))] * 1000
    )
