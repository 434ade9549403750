"""Records the Envelopes of a real Apache Kafka node, both ways: `python -m tests.forwarding.record FILE`.

The node forwards to itself, through a proxy that writes down what passes. Its principals come by PLAINTEXT and SCRAM,
from IPv4 and IPv6 addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from barnabas.client.cluster import channel_settings
from barnabas.client.config import ClientConfig
from barnabas.net.client import Channel
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import API_KEYS, ApiKey
from tests.peers.kafka import RealKafka
from tests.server.requests import build

K = ApiKey
TOPIC = {"name": "golden", "num_partitions": 1, "replication_factor": 1}
ACL = {
    "resource_type": 2,
    "resource_name": "golden",
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ASKED: list[tuple[ApiKey, int | None, dict[str, Any]]] = [
    (K.CREATE_TOPICS, 2, {"topics": [TOPIC], "timeout_ms": 9000}),
    (K.CREATE_TOPICS, 7, {"topics": [{**TOPIC, "name": "golden-7"}], "timeout_ms": 9000}),
    (K.CREATE_PARTITIONS, None, {"topics": [{"name": "golden", "count": 2, "assignments": None}], "timeout_ms": 9000}),
    (K.CREATE_ACLS, 1, {"creations": [ACL]}),
    (K.CREATE_ACLS, 3, {"creations": [ACL]}),
    (K.DELETE_ACLS, None, {"filters": []}),
    (K.ALTER_CLIENT_QUOTAS, 0, {"entries": []}),
    (K.ALTER_USER_SCRAM_CREDENTIALS, None, {"deletions": [{"name": "nobody", "mechanism": 1}]}),
    (K.LIST_PARTITION_REASSIGNMENTS, None, {"topics": None}),
    (K.DELETE_TOPICS, 1, {"topic_names": ["golden"], "timeout_ms": 9000}),
    (K.DELETE_TOPICS, 6, {"topics": [{"name": "golden-7"}], "timeout_ms": 9000}),
]


async def record(kafka: RealKafka, told: int, behind: int) -> list[dict[str, str]]:
    """Give what passes the proxy that listens where the node believes its controller to be."""
    found: list[dict[str, str]] = []
    proxy = await asyncio.start_server(lambda r, w: _pass(r, w, behind, found), "localhost", told)
    async with proxy:
        await asyncio.to_thread(kafka.start)
        try:
            for protocol, user in (("PLAINTEXT", "admin"), ("SASL_PLAINTEXT", "alice")):
                config = ClientConfig.from_properties(
                    {**kafka.client_properties(protocol, user), "client.id": f"golden-{user}"}
                )
                for host in ("127.0.0.1",):
                    channel = await Channel.open(host, kafka.ports[protocol], channel_settings(config))
                    for key, version, fields in ASKED:
                        await channel.call(
                            build(key, **fields), version=API_KEYS[key].max_version if version is None else version
                        )
                    await channel.close()
        finally:
            await asyncio.to_thread(kafka.stop)
    return found


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, found: list[dict[str, str]]
) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("localhost", port)
    waiting: dict[int, bytes] = {}

    async def there() -> None:
        while True:
            frame = await _frame(reader)
            if int.from_bytes(frame[:2], "big") == K.ENVELOPE:
                waiting[int.from_bytes(frame[4:8], "big")] = frame
            inner_writer.write(len(frame).to_bytes(4, "big") + frame)

    async def back() -> None:
        while True:
            frame = await _frame(inner_reader)
            asked = waiting.pop(int.from_bytes(frame[:4], "big"), None)
            if asked is not None:
                found.append({"request": asked.hex(), "response": frame.hex()})
            writer.write(len(frame).to_bytes(4, "big") + frame)

    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await asyncio.gather(there(), back())
    writer.close()
    inner_writer.close()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def main() -> None:
    """Write the recording."""
    with tempfile.TemporaryDirectory() as folder:
        [told] = free_ports(1)
        kafka = RealKafka(
            Path(folder),
            listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
            scram_users={"alice": "alice-secret"},
            authorizer=True,
        )
        text = kafka.config_file.read_text()
        advertised = ",".join(
            f"{name}://localhost:{port}" for name, port in {**kafka.ports, "CONTROLLER": told}.items()
        )
        kafka.config_file.write_text(text + f"advertised.listeners={advertised}\n")
        found = asyncio.run(record(kafka, told, kafka.controller_port))
    Path(sys.argv[1]).write_text("".join(json.dumps(pair) + "\n" for pair in found))


if __name__ == "__main__":
    main()
