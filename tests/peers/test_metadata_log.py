"""Our metadata directories and Apache Kafka's, each read by the other."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from barnabas.core.metadata.scram import ScramMechanism
from barnabas.net.clock import SystemClock
from barnabas.server.config import NodeConfig
from barnabas.server.controller import Controller
from barnabas.server.format import FormatRequest, format_directories, standalone_voters
from tests.server.controllers import configs_of, formatted, running, setting

from .kafka import RealKafka, cluster_id
from .tools import CONFIG_COMMAND, DUMP_LOG_SEGMENTS, METADATA_QUORUM_COMMAND, TOPIC_COMMAND, ToolRunner

pytestmark = pytest.mark.peer

OUR_LEVELS = [arg for feature in ("share.version=0", "streams.version=0") for arg in ("--feature", feature)]


async def test_dump_log_segments_reads_log_snapshots_and_bootstrap(tmp_path: Path, java_tools: ToolRunner) -> None:
    config = formatted(tmp_path, scram=("SCRAM-SHA-512=[name=alice,password=secret]",))
    async with running(config) as controller:
        await controller.write(setting("retention.ms", "1"))
        await controller.snapshot()
        await controller.write(setting("retention.ms", "2"))
        for n in range(100):
            await controller.write(setting(f"key-{n}", "x" * 60))
    directory = tmp_path / "__cluster_metadata-0"
    files = [*directory.glob("*.log"), *directory.glob("*.checkpoint"), tmp_path / "bootstrap.checkpoint"]
    assert len(files) == 4
    dumps = {}
    for path in files:
        result = java_tools.run(DUMP_LOG_SEGMENTS, "--cluster-metadata-decoder", "--files", str(path))
        assert result.code == 0, result.stderr
        for complaint in ("isvalid: false", "Could not", "Found", "Error", "Exception", "skipping"):
            assert complaint not in result.stdout + result.stderr, path
        dumps[path.name] = result.stdout
    log = dumps["00000000000000000000.log"]
    assert [kind for kind in ("LeaderChange", "KRaftVersion", "KRaftVoters") if kind in log] == [
        "LeaderChange", "KRaftVersion", "KRaftVoters",
    ]  # fmt: skip
    assert '"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice","mechanism":2' in log
    assert '"name":"retention.ms","value":"2"' in log
    snapshot = next(text for name, text in dumps.items() if name.endswith("-0000000001.checkpoint"))
    assert "SnapshotHeader" in snapshot
    assert "SnapshotFooter" in snapshot
    assert '"name":"retention.ms","value":"1"' in snapshot
    indexes = java_tools.run(DUMP_LOG_SEGMENTS, "--index-sanity-check", "--files", str(directory / f"{0:020d}.index"))
    assert "passed sanity check" in indexes.stdout


async def test_kafka_takes_over_a_directory_and_gives_it_back(tmp_path: Path, java_tools: ToolRunner) -> None:
    kafka = RealKafka(tmp_path)
    config = NodeConfig.load(kafka.config_file)
    metadata_dir = Path(config.metadata_log_dir)
    format_directories(
        FormatRequest(
            cluster_id(kafka.config_file),
            config.node_id,
            [metadata_dir],
            metadata_dir,
            voters=standalone_voters(config),
            scram=("SCRAM-SHA-256=[name=alice,password=secret]",),
        )
    )
    async with running(config) as controller:
        await controller.write(setting("cleanup.policy", "compact"))
        await controller.snapshot()
        await controller.write(setting("retention.ms", "77777"))
    with kafka:
        described = java_tools.run(
            CONFIG_COMMAND, "--bootstrap-server", kafka.bootstrap(), "--describe", "--entity-type", "users"
        )
        assert "'alice' are SCRAM-SHA-256=iterations=4096" in described.stdout
        made = java_tools.run(
            TOPIC_COMMAND,
            "--bootstrap-server",
            kafka.bootstrap(),
            "--create",
            "--topic",
            "flights",
            "--partitions",
            "3",
        )
        assert made.code == 0, made.stderr
        quorum = java_tools.run(
            METADATA_QUORUM_COMMAND, "--bootstrap-server", kafka.bootstrap(), "describe", "--status"
        )
        assert "LeaderEpoch:            2" in quorum.stdout
    async with running(config) as again:
        image = again.committed_image
        assert again.driver.node.epoch == 3
        assert configs_of(image) == {"cleanup.policy": "compact", "retention.ms": "77777"}
        assert len(image.topics.by_name["flights"].partitions) == 3
        assert image.scram.get(ScramMechanism.SCRAM_SHA_256, "alice") is not None
        await again.snapshot()
        await again.write(setting("retention.ms", "88888"))
    shutil.rmtree(tmp_path / "data" / "flights-0", ignore_errors=True)
    with kafka:
        topics = java_tools.run(TOPIC_COMMAND, "--bootstrap-server", kafka.bootstrap(), "--list")
        assert topics.stdout.split() == ["flights"]


async def test_a_directory_that_kafka_formatted_is_ours_to_run(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path, format_args=OUR_LEVELS)
    kafka.format()
    config = NodeConfig.load(kafka.config_file)
    async with running(config) as controller:
        image = controller.committed_image
        others = {"eligible.leader.replicas.version": 1, "transaction.version": 2, "group.version": 1}
        assert dict(image.features.others) == others
        assert image.scram.get(ScramMechanism.SCRAM_SHA_512, "admin") is not None


async def test_a_cluster_with_features_we_lack_is_refused_by_name(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path)
    kafka.format()
    controller = Controller(NodeConfig.load(kafka.config_file), SystemClock())
    with pytest.raises(Exception, match=r"share\.version=0"):
        async with asyncio.timeout(60):
            await controller.run()
