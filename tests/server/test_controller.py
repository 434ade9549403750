from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import structlog

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.core.replicated import Decision, VersionedRecord, answer
from barnabas.model.features import LATEST_METADATA_VERSION
from barnabas.net.clock import SystemClock
from barnabas.server.controller import Controller, ControllerError
from barnabas.server.format import BOOTSTRAP_FILE, FormatRequest, format_directories
from barnabas.server.raft.driver import DriverFailedError
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.metadata_records import encode_metadata_record
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord

from .controllers import CLUSTER_ID, configs_of, formatted, node_config, running, set_config, setting


def same(one: MetadataImage, other: MetadataImage) -> bool:
    """Say whether two images hold the same, but for where they stand and the controller's own registration."""
    cluster = replace(one.cluster, controllers=other.cluster.controllers)
    return replace(one, offset_epoch=other.offset_epoch, cluster=cluster) == other


async def test_an_empty_log_gets_the_bootstrap_records(tmp_path: Path) -> None:
    config = formatted(tmp_path, scram=("SCRAM-SHA-512=[name=admin,password=pw]",))
    async with running(config) as controller:
        image = controller.committed_image
        assert image.features.metadata_version == LATEST_METADATA_VERSION
        others = {"transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1}
        assert dict(image.features.others) == others
        assert image.scram.get(ScramMechanism.SCRAM_SHA_512, "admin") is not None
        cluster = ConfigResource(ConfigResourceType.BROKER, "")
        assert dict(image.configs.get(cluster)) == {"min.insync.replicas": "1"}
        assert list(image.cluster.controllers) == [1]
        assert image.cluster.controllers[1].listeners["CONTROLLER"].port == 19093
        assert controller.kraft_version == 1
        # Three control records; begin, four features, a user, a config, end; the registration of this controller.
        assert image.offset_epoch == (11, 1)
        assert controller.image == image


async def test_a_write_is_answered_when_it_is_committed_and_survives(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    async with running(config) as controller:
        assert await controller.write(setting("a", "1")) == "1"
        assert configs_of(controller.committed_image) == {"a": "1"}
        before = controller.committed_image
    async with running(config) as again:
        after = again.committed_image
        assert same(after, before)
        assert after.offset_epoch.epoch == 2


async def test_decisions_see_what_is_not_yet_committed(tmp_path: Path) -> None:
    async with running(formatted(tmp_path)) as controller:
        seen: list[dict[str, str]] = []

        def decide(n: int, image: MetadataImage) -> Decision[str]:
            seen.append(configs_of(image))
            return set_config("n", str(n))

        writes = [controller.write(partial(decide, n)) for n in range(50)]
        assert await asyncio.gather(*writes) == [str(n) for n in range(50)]
        assert seen == [{}, *({"n": str(n)} for n in range(49))]
        assert controller.driver.measures.max_group >= 40


async def test_a_decision_knows_the_offset_of_its_first_record(tmp_path: Path) -> None:
    async with running(formatted(tmp_path)) as controller:
        for _ in range(3):
            expected = controller.driver.node.log_end_offset
            offsets: list[int] = []

            def decide(image: MetadataImage, offsets: list[int] = offsets) -> Decision[str]:
                offsets.append(image.offset_epoch.offset + 1)
                return set_config("a", "b")

            await controller.write(decide)
            assert offsets == [expected]


async def test_an_answer_that_saw_uncommitted_metadata_waits_for_it(tmp_path: Path) -> None:
    async with running(formatted(tmp_path)) as controller:
        order: list[str] = []

        async def tell(name: str, decision: Decision[str]) -> None:
            await controller.write(lambda image: decision)
            order.append(name)

        await asyncio.gather(tell("change", set_config("a", "1")), tell("read", answer("x")))
        assert order == ["change", "read"]


async def test_a_refused_decision_changes_nothing(tmp_path: Path) -> None:
    async with running(formatted(tmp_path)) as controller:
        end = controller.driver.node.log_end_offset

        def refuse(image: MetadataImage) -> Decision[None]:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no")

        with pytest.raises(ApiError) as refused:
            await controller.write(refuse)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert controller.driver.node.log_end_offset == end


async def test_a_follower_gets_every_delta_from_the_first_image_on(tmp_path: Path) -> None:
    async with running(formatted(tmp_path)) as controller:
        first = await controller.caught_up()
        await controller.write(setting("early", "1"))
        deltas: list[MetadataDelta] = []
        controller.follow(deltas.append)
        await controller.write(setting("late", "2"))
        assert deltas[0].before == first
        assert configs_of(deltas[0].after) == {"early": "1"}
        assert configs_of(deltas[-1].after) == {"early": "1", "late": "2"}
        assert [d.before for d in deltas[1:]] == [d.after for d in deltas[:-1]]


async def test_a_decision_that_is_not_atomic_may_span_batches(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    records = tuple(
        VersionedRecord(ConfigRecord(resource_type=2, resource_name="t", name=f"k{n}", value="v"), 0)
        for n in range(25_000)
    )
    async with running(config) as controller:
        with pytest.raises(ApiError, match="together"):
            await controller.write(lambda image: Decision(records, None))
        await controller.write(lambda image: Decision(records, None, atomic=False))
        assert len(configs_of(controller.committed_image)) == 25_000
        assert controller.image == controller.committed_image
    async with running(config) as again:
        assert len(configs_of(again.committed_image)) == 25_000


async def test_a_snapshot_holds_everything(tmp_path: Path) -> None:
    config = formatted(tmp_path, metadata__max__retention__bytes="0", scram=("SCRAM-SHA-256=[name=a,password=b]",))
    async with running(config) as controller:
        await controller.write(setting("a", "1"))
        await controller.snapshot()
        assert controller.driver.files.start_offset == controller.committed_image.offset_epoch.offset + 1
        await controller.write(setting("b", "2"))
        before = controller.committed_image
    async with running(config) as again:
        after = again.committed_image
        assert same(after, before)


async def test_an_idle_controller_writes_no_ops(tmp_path: Path) -> None:
    config = formatted(tmp_path, metadata__max__idle__interval__ms="10")
    async with running(config) as controller:
        offsets: list[int] = []
        enough = asyncio.Event()

        def note(delta: MetadataDelta) -> None:
            offsets.append(delta.after.offset_epoch.offset)
            if len(offsets) == 3:
                enough.set()

        controller.follow(note)
        async with asyncio.timeout(60):
            await enough.wait()
        assert offsets[2] == offsets[0] + 2


async def test_a_broken_disk_refuses_what_is_under_way_and_ends_the_controller() -> None:
    fs = MemoryFileSystem()
    directory = Path("/data")
    fs.make_dirs(directory)
    controller = Controller(formatted(directory, fs), SystemClock(), fs)
    task = asyncio.create_task(controller.run())
    await controller.caught_up()
    fs.fault = lambda operation, path: OSError(errno.ENOSPC, "full") if operation == "pwrite" else None
    with pytest.raises(ApiError) as refused:
        await controller.write(setting("a", "1"))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    with pytest.raises(DriverFailedError, match="full"):
        await task
    assert configs_of(controller.committed_image) == {}
    with pytest.raises(ApiError):
        await controller.write(setting("a", "1"))


async def test_a_directory_that_is_not_formatted_is_refused(tmp_path: Path) -> None:
    controller = Controller(node_config(tmp_path), SystemClock())
    with pytest.raises(ControllerError, match="not formatted"):
        await controller.run()
    with pytest.raises(ControllerError, match="not formatted"):
        await controller.caught_up()


async def test_a_quorum_without_this_node_is_refused(tmp_path: Path) -> None:
    config = node_config(tmp_path)
    format_directories(FormatRequest(CLUSTER_ID, 1, [tmp_path], tmp_path, voters=None))
    with pytest.raises(ControllerError, match="nobody votes"):
        await Controller(config, SystemClock()).run()


async def test_a_static_quorum_of_one_leads(tmp_path: Path) -> None:
    config = node_config(
        tmp_path, controller__quorum__voters="1@localhost:19093", controller__quorum__bootstrap__servers=""
    )
    format_directories(FormatRequest(CLUSTER_ID, 1, [tmp_path], tmp_path, dynamic=False))
    for epoch in (1, 2):
        async with running(config) as controller:
            assert controller.driver.node.epoch == epoch
            state = (tmp_path / "__cluster_metadata-0" / "quorum-state").read_text()
            assert state == (
                f'{{"clusterId":"","leaderId":1,"leaderEpoch":{epoch},"votedId":-1,"appliedOffset":0,'
                '"currentVoters":[{"voterId":1}],"data_version":0}'
            )


async def test_metadata_of_newer_software_is_refused_by_name(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    values = [
        encode_metadata_record(FeatureLevelRecord(name=name, feature_level=level), 0)
        for name, level in (("metadata.version", 30), ("share.version", 1))
    ]
    batches = snapshot_batches(values, epoch=0, last_timestamp_ms=0, now_ms=0)
    (tmp_path / BOOTSTRAP_FILE).write_bytes(b"".join(batches))
    with pytest.raises(ControllerError, match=r"share\.version"):
        await Controller(config, SystemClock()).run()


async def test_a_torn_tail_is_cut_and_said(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    async with running(config) as controller:
        await controller.write(setting("a", "1"))
        before = controller.committed_image
    segment = next((tmp_path / "__cluster_metadata-0").glob("*.log"))
    whole = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[-40:] + b"torn")
    with structlog.testing.capture_logs() as lines:
        async with running(config) as again:
            assert same(again.committed_image, before)
            assert again.driver.files.size_bytes >= whole
    cut = [line for line in lines if line["event"] == "cut the torn tail of the metadata log"]
    assert [line["bytes"] for line in cut] == [44]


async def test_a_damaged_snapshot_stops_the_start_and_says_which(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    snapshot = next((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    snapshot.write_bytes(snapshot.read_bytes()[:100])
    with pytest.raises(ControllerError, match=str(tmp_path)):
        await Controller(config, SystemClock()).run()
