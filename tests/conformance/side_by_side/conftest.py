"""A real Apache Kafka 4.3.1 and a Barnabas node, configured by the same file, for the whole session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from barnabas.model.uuid import Uuid
from barnabas.server.config import NodeConfig
from barnabas.server.format import FormatRequest, format_directories, standalone_voters
from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import API_KEYS, ApiKey
from tests.peers.kafka import ADMIN_PASSWORD, RealKafka, cluster_id
from tests.peers.maven import compiled

from .comparison import differences, told
from .known import KNOWN
from .requests import request
from .script import SCRIPTS
from .side import ADMIN, NOBODY, Side

USERS: Final = {NOBODY: "nobody-secret", "alice": "alice-secret", "bob": "bob-secret"}
LEVELS: Final = {"share.version": 0, "streams.version": 0}
"""Barnabas does not offer these features' APIs yet; with them at 0 Kafka does not use them either."""
SETTINGS: Final = {
    "group.min.session.timeout.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "connection.failed.authentication.delay.ms": "0",
    "num.partitions": "2",
    "auto.create.topics.enable": "true",
    "log.retention.hours": "72",
    "log.segment.bytes": "104857600",
    "message.max.bytes": "100000",
    "quota.window.num": "11",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "telemetry.max.bytes": "5000",
    "metric.reporters": "TelemetryExporter",
    "barnabas.client.telemetry.exporters": "barnabas.server.telemetry.log_exporter:LogExporter",
}
_EXPORTER: Final = Path(__file__).parents[1] / "java" / "TelemetryExporter.java"
"""Without an exporter neither of them takes clients' metrics."""


@dataclass
class Both:
    """The two nodes."""

    kafka: Side
    barnabas: Side
    ran: set[Callable[[Side], None]] = field(default_factory=set)

    def run(self, script: Callable[[Side], None]) -> None:
        """Run a script on both at once and compare what came of it."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda side: _run(script, side), (self.kafka, self.barnabas)))
        self.ran.add(script)
        found = [d for d in differences(self.kafka, self.barnabas) if not any(k.covers(d) for k in KNOWN)]
        assert self.kafka.outcomes, "the script compared nothing"
        if found:
            pytest.fail(f"{len(found)} differences from Apache Kafka\n{told(found)}", pytrace=False)

    def not_asked(self) -> list[str]:
        """Give what was never compared of all that is offered; nothing when only some of the scripts were run."""
        modules = {Path(__file__).with_name(script.__module__.rpartition(".")[2] + ".py") for script in self.ran}
        if self.ran != SCRIPTS or modules != set(Path(__file__).parent.glob("test_*.py")):
            return []
        offered = self.barnabas.ask(request("ApiVersions", client_software_name="x", client_software_version="1"))
        return [
            f"{ApiKey(api.api_key).name} v{version}"
            for api in offered.api_keys
            for version in range(API_KEYS[api.api_key].min_version, api.max_version + 1)
            if (api.api_key, version) not in self.barnabas.asked
        ]


def _run(script: Callable[[Side], None], side: Side) -> None:
    side.begin()
    try:
        script(side)
    except Exception as e:
        e.add_note(f"on {side.name}, after {[o.step for o in side.outcomes[-1:]]}")
        raise
    finally:
        side.close()


@pytest.fixture(scope="package")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    kafka = RealKafka(
        tmp_path_factory.mktemp("side-kafka"),
        listeners=("SASL_PLAINTEXT",),
        scram_users=USERS,
        authorizer=True,
        properties=SETTINGS,
        plugins=[compiled(_EXPORTER)],
        format_args=[arg for name, level in LEVELS.items() for arg in ("--feature", f"{name}={level}")],
    )
    passwords = {ADMIN: ADMIN_PASSWORD, **USERS}
    folder = tmp_path_factory.mktemp("side-barnabas")
    with ThreadPoolExecutor(2) as pool:
        started = pool.submit(kafka.start)
        config, ports = _prepare(kafka, folder)
        try:
            with Cluster(folder):
                started.result()
                made = Both(
                    Side("Kafka", kafka.ports["SASL_PLAINTEXT"], passwords, _places(kafka.config_file, kafka.folder)),
                    Side("Barnabas", ports[0], passwords, _places(config, folder)),
                )
                yield made
                missing = made.not_asked()
                made.kafka.close()
                made.barnabas.close()
                assert missing == []
        finally:
            started.result()
            kafka.stop()


def _prepare(kafka: RealKafka, folder: Path) -> tuple[Path, list[int]]:
    """Format a directory for Barnabas with Kafka's own configuration file, ports and paths apart."""
    ports = free_ports(2)
    text = kafka.config_file.read_text().replace(str(kafka.folder), str(folder))
    for theirs, mine in zip((kafka.ports["SASL_PLAINTEXT"], kafka.controller_port), ports, strict=True):
        text = text.replace(f":{theirs}", f":{mine}")
    file = folder / "server.properties"
    file.write_text(text)
    (folder / "admin.password").write_text(ADMIN_PASSWORD)
    (folder / "data").mkdir()
    config = NodeConfig.load(file)
    users = {ADMIN: ADMIN_PASSWORD, **USERS}
    format_directories(
        FormatRequest(
            cluster_id=str(Uuid.parse(cluster_id(kafka.config_file))),
            node_id=config.node_id,
            log_dirs=[Path(d) for d in config.log_dirs],
            metadata_dir=Path(config.metadata_log_dir),
            voters=standalone_voters(config),
            features=LEVELS,
            scram=[
                f"{mechanism}=[name={user},password={password}]"
                for user, password in users.items()
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            ],
        )
    )
    return file, ports


def _places(config: Path, folder: Path) -> dict[str, str]:
    """Give the texts that only this node has."""
    ports = re.findall(r"^listeners=\w+://localhost:(\d+),CONTROLLER://localhost:(\d+)$", config.read_text(), re.M)[0]
    return {str(folder): "(folder)", ports[0]: "(port)", ports[1]: "(controller port)"}
