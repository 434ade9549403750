"""A client in frames that does one thing wrong, or nothing: python -m tests.reauth.raw_client MANNERS HOST:PORT TOPIC

It logs in by PLAIN as its environment says, and writes 0, 1, 2, ... by one request after the other.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum

from barnabas.wire.batch_writer import encode_batch
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.record_batch import Record
from tests.server.frames import FramePeer

PAUSE_S = 0.02
RENEWED_AFTER = 0.6


class Manners(StrEnum):
    """How it behaves."""

    GOOD = "good"
    NEVER = "never"
    """It opens another connection when one is closed, and sends again what was not answered."""
    LOSES = "loses"
    """As NEVER, but what was not answered is not sent again."""
    GIVES_UP = "gives-up"
    """It ends when its connection is closed."""
    PIPELINES = "pipelines"
    """It goes on asking in the middle of the exchange."""
    ANOTHER = "another"
    """It renews as somebody else."""
    SPINS = "spins"
    """It tries again at once when it is refused."""
    HANGS = "hangs"
    """It does nothing more when it is refused."""
    SHRUGS = "shrugs"
    """It ends with exit code 0 when it is refused."""


class RefusedError(Exception):
    """The node did not let it in, or not again."""


class RawClient:
    def __init__(self, manners: Manners, port: int, topic: str, user: str, password: str) -> None:
        self.manners = manners
        self.port = port
        self.topic = topic
        self.user = user
        self.password = password
        self.renew_at = float("inf")

    def run(self) -> None:
        number = 0
        while True:
            try:
                with FramePeer(self.port) as peer:
                    self.log_in(peer)
                    while True:
                        self.renew(peer)
                        self.write(peer, number)
                        number += 1
                        time.sleep(PAUSE_S)
            except OSError:
                if self.manners is Manners.GIVES_UP:
                    sys.exit("the connection was closed")
                number += self.manners is Manners.LOSES
            except RefusedError as refused:
                self.refused(refused)

    def refused(self, why: RefusedError) -> None:
        if self.manners is Manners.SHRUGS:
            sys.exit(0)
        if self.manners is Manners.HANGS:
            time.sleep(600)  # it is ended by the signal that ends all of these
        if self.manners is not Manners.SPINS:
            sys.exit(f"refused: {why}")

    def log_in(self, peer: FramePeer, *, user: str = "", between: bool = False) -> None:
        began = time.monotonic()
        peer.call(SaslHandshakeRequest(mechanism="PLAIN"))
        if between:
            peer.call(MetadataRequest(topics=[]), 9)
        token = f"\0{user or self.user}\0{self.password}".encode()
        answer = peer.call(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            raise RefusedError(answer.error_message)
        life_s = answer.session_lifetime_ms / 1000
        careless = self.manners in (Manners.NEVER, Manners.LOSES, Manners.GIVES_UP)
        self.renew_at = float("inf") if careless else began + RENEWED_AFTER * life_s

    def renew(self, peer: FramePeer) -> None:
        if time.monotonic() >= self.renew_at:
            another = "somebody" if self.manners is Manners.ANOTHER else ""
            self.log_in(peer, user=another, between=self.manners is Manners.PIPELINES)

    def write(self, peer: FramePeer, number: int) -> None:
        records = encode_batch([Record(0, time.time_ns() // 1_000_000, None, b"%d" % number)])
        partition = PartitionProduceData(index=0, records=memoryview(records))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=self.topic, partition_data=[partition])]
        )
        answer = peer.call(request, 9)
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            sys.exit(f"not written: error {code}")


if __name__ == "__main__":
    _, manners, address, topic = sys.argv
    port = int(address.rpartition(":")[2])
    RawClient(Manners(manners), port, topic, os.environ["REAUTH_USERNAME"], os.environ["REAUTH_PASSWORD"]).run()
