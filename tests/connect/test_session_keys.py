"""Session keys on workers of ours: handed out, replaced in time, inherited, and what becomes of a write that fails."""

from __future__ import annotations

import asyncio
import base64

import pytest
import structlog

from barnabas.client.cluster import Cluster, CoordinatorKind
from barnabas.client.config import ClientConfig
from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.worker import Worker
from barnabas.core.connect.session_keys import SessionKey
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.connect.clock import SetClock
from tests.connect.plain_runtime import FILE_SOURCE
from tests.connect.test_group import settled
from tests.connect.workers import running, until, worker_properties

pytestmark = pytest.mark.slow


def key_of(worker: Worker) -> SessionKey | None:
    return worker.engine.configs.state.session_key


@pytest.mark.requirement("C-11", "C-13")
async def test_the_leader_replaces_the_key_every_ttl(bootstrap: str, group: str) -> None:
    clock = SetClock()
    properties = worker_properties(bootstrap, group, inter_worker_key_ttl_ms="1000")
    async with running(properties, clock=clock) as worker:
        first = key_of(worker)
        assert first is not None
        assert (first.algorithm, len(first.key), first.creation_timestamp_ms) == ("HmacSHA256", 32, clock.ms)
        clock.pass_ms(999, worker)
        await worker.herder.connectors()
        assert key_of(worker) == first
        clock.pass_ms(1, worker)
        await until(lambda: key_of(worker) != first)
        second = key_of(worker)
        assert second is not None
        assert (second.creation_timestamp_ms, second.key != first.key) == (clock.ms, True)


@pytest.mark.requirement("C-14", "H-25")
async def test_a_new_leader_goes_on_with_the_keys_age(bootstrap: str, group: str) -> None:
    clock = SetClock()
    properties = worker_properties(bootstrap, group, inter_worker_key_ttl_ms="1000")
    async with running(properties, clock=clock) as worker:
        first = key_of(worker)
    for _ in range(3):
        clock.pass_ms(300)
        async with running(properties, clock=clock) as worker:
            assert key_of(worker) == first
    async with running(properties, clock=clock) as worker, running(properties, clock=clock) as other:
        assert key_of(worker) == first
        clock.pass_ms(100, worker, other)
        await until(lambda: key_of(worker) == key_of(other) != first)


@pytest.mark.requirement("H-25", "C-03")
async def test_without_a_ttl_a_key_is_never_replaced(bootstrap: str, group: str) -> None:
    clock = SetClock()
    properties = worker_properties(bootstrap, group, inter_worker_key_ttl_ms="0")
    async with running(properties, clock=clock) as worker:
        first = key_of(worker)
    clock.pass_ms(10**12)
    async with running(properties, clock=clock) as worker:
        assert key_of(worker) == first
        clock.pass_ms(10**12, worker)
        await worker.herder.put_connector_config("c", {"connector.class": FILE_SOURCE}, allow_replace=True)
        assert key_of(worker) == first


@pytest.mark.requirement("C-15", "C-38")
async def test_a_leader_with_other_settings_replaces_the_key_at_once(bootstrap: str, group: str) -> None:
    clock = SetClock()
    properties = worker_properties(bootstrap, group)
    async with running(properties, clock=clock) as worker:
        first = key_of(worker)
        longer = {"inter.worker.key.generation.algorithm": "HmacSHA512", "inter.worker.key.size": "1024"}
        async with running(properties | longer | {"inter.worker.key.ttl.ms": "1000"}, clock=clock) as other:
            assert worker.engine.member.leads
            clock.pass_ms(1000, worker, other)
            config = {"connector.class": FILE_SOURCE}
            await worker.herder.put_connector_config("c", config, allow_replace=True)
            await until(lambda: other.engine.configs.state.connectors == ["c"])
            assert key_of(other) == first  # only the leader's settings count
            worker.stop()
            await until(lambda: other.engine.member.leads and key_of(other) != first)
            key = key_of(other)
            assert key is not None
            assert (key.algorithm, len(key.key)) == ("HmacSHA512", 128)


@pytest.mark.requirement("C-39")
async def test_nothing_that_members_tell_each_other_through_the_group_has_the_key(bootstrap: str, group: str) -> None:
    """The coordinator gives back what members sent with JoinGroup, and the leader with SyncGroup."""
    properties = worker_properties(bootstrap, group)
    async with running(properties) as one, running(properties) as two:
        await until(lambda: settled(one, two) and key_of(one) is not None)
        key = key_of(one)
        assert key is not None
        async with Cluster(ClientConfig.from_properties({"bootstrap.servers": bootstrap})) as cluster:
            asked = DescribeGroupsRequest(groups=[group])
            response: DescribeGroupsResponse = await cluster.call_coordinator(CoordinatorKind.GROUP, group, asked)
        (found,) = response.groups
        assert found.protocol_data == "sessioned"
        for told in ([m.member_metadata for m in found.members], [m.member_assignment for m in found.members]):
            assert len(told) == 2
            assert all(one.url.encode() in text or two.url.encode() in text for text in told)
            assert not [text for text in told if key.key in text or base64.b64encode(key.key) in text]


@pytest.mark.requirement("H-24")
async def test_a_key_that_cannot_be_written_is_tried_again_and_the_worker_goes_on(bootstrap: str, group: str) -> None:
    """The topic takes no record while its limit is too small for one: the worker lives, reads on, and recovers."""
    from barnabas.client.admin import Admin
    from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
    from barnabas.client.config import ClientConfig

    clock = SetClock()
    properties = worker_properties(bootstrap, group, inter_worker_key_ttl_ms="1000")
    topic = ConfigResource(ConfigResourceType.TOPIC, f"{group}-configs")
    async with (
        Admin(ClientConfig.from_properties({"bootstrap.servers": bootstrap})) as admin,
        running(properties, clock=clock) as worker,
    ):

        async def allow(size: str) -> None:
            change = ConfigChange("max.message.bytes", AlterConfigOp.SET, size)
            assert (await admin.incremental_alter_configs({topic: [change]}))[topic] is None

        first = key_of(worker)
        await allow("10")
        with structlog.testing.capture_logs() as lines:
            clock.pass_ms(1000, worker)
            await until(lambda: any(line["event"] == "a new session key could not be handed out" for line in lines))
            await until(lambda: worker.engine.stage == "")
            with pytest.raises(WriteFailedError):
                await worker.herder.put_connector_config("c", {"connector.class": FILE_SOURCE}, allow_replace=True)
        assert key_of(worker) == first
        await allow("1000000")
        clock.pass_ms(60_000, worker)
        await until(lambda: key_of(worker) != first)
        await worker.herder.put_connector_config("c", {"connector.class": FILE_SOURCE}, allow_replace=True)
        assert await worker.herder.connectors() == ["c"]


@pytest.mark.requirement("H-24")
async def test_keys_rotate_under_reconfiguration(bootstrap: str, group: str) -> None:
    clock = SetClock()
    properties = worker_properties(bootstrap, group, inter_worker_key_ttl_ms="1000")
    async with running(properties, clock=clock) as worker, running(properties, clock=clock) as other:
        leader = worker if worker.engine.member.leads else other
        seen: set[bytes] = set()

        async def reconfigure(n: int) -> None:
            config = {"connector.class": FILE_SOURCE, "n": str(n)}
            async with asyncio.timeout(30):
                await leader.engine.write(leader.engine.configs.put_connector_config(f"c{n % 3}", config))

        for n in range(20):
            before = key_of(leader)
            clock.pass_ms(1000, worker, other)
            await asyncio.gather(*(reconfigure(10 * n + k) for k in range(5)))
            await until(lambda before=before: key_of(leader) != before)  # type: ignore[misc]
            key = key_of(leader)
            assert key is not None
            seen.add(key.key)
        assert len(seen) == 20
        assert await other.herder.connectors() == ["c0", "c1", "c2"]
