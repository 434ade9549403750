"""Exactly once on Apache Kafka 2.1, whose coordinators cannot be asked about transactions."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from barnabas.spark import exactly_once
from barnabas.spark.options import parse_write_options
from barnabas.spark.part import Part
from barnabas.testing.ports import free_ports
from tests.peers.kafka_before_lifetimes import KafkaBeforeLifetimes
from tests.sessions.recorder import recorded

from .sinks import Sink, once, rows

pytestmark = pytest.mark.peer


async def test_a_write_is_committed_where_nobody_can_be_asked_whether_it_is_still_wanted(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    login = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "root",
        "sasl.password": "root-secret",
    }
    secret = tmp_path / "root.properties"
    secret.write_text("sasl.password=root-secret\n")
    options = {f"kafka.{key}": value for key, value in login.items()}
    sink = Sink(options | {"kafka.sasl.password": f"${{file:{secret}:sasl.password}}"}, login)

    def write() -> None:
        topic = sink.create(1)
        options = parse_write_options({**sink.options, "topic": topic, "exactlyOnce": "true"})
        part = Part("old", uuid.uuid4().hex, 0, None, uuid.uuid4().hex, rivals=False)
        exactly_once.commit(options, [exactly_once.write(options, part, rows(0, 1))])
        sink.wait_seen(topic, 1, once(2))

    (folder := tmp_path / "kafka").mkdir()
    with KafkaBeforeLifetimes(folder, advertised=port) as kafka:
        async with recorded("127.0.0.1", kafka.port, at=port):
            await asyncio.to_thread(write)
