"""The way to the active controller, against a controller that does what the test says (KIP-590)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.model.uuid import Uuid
from barnabas.net.dev_ca import DevCa
from barnabas.net.tls import ServerTls, TlsConfig
from barnabas.server.forwarding.channel import ForwardingChannel
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.peers.eventually import eventually
from tests.server.requests import build, error_codes

from .scripted import (
    ALICE,
    Broker,
    ScriptedController,
    broker_config,
    channel_of,
    client_request,
    done,
    forwarded,
    response_to,
)

pytestmark = pytest.mark.slow
TWO_ACLS = CreateAclsRequest(creations=[AclCreation(resource_name="a"), AclCreation(resource_name="b")])
TOPIC = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
TOPIC_ID = Uuid(b"\x07" * 16)


RUNNER = "barnabas.server.forwarding.errand_runner"
LONG_S = 600.0
"""Longer than any test may take."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take nobody for silent whom a test does not call so: a busy machine lets everybody wait."""
    monkeypatch.setattr(f"{RUNNER}.SILENCE_S", LONG_S)
    monkeypatch.setattr(f"{RUNNER}.CONNECT_MS", int(LONG_S * 1000))


@pytest.fixture
async def controller() -> AsyncIterator[ScriptedController]:
    """Give a controller that answers everything."""
    async with ScriptedController() as found:
        yield found


@pytest.fixture
async def broker(controller: ScriptedController) -> Broker:
    """Give a broker that takes it for the active one."""
    return Broker(broker_config(), leader=controller.target)


@pytest.fixture
async def channel(broker: Broker) -> AsyncIterator[ForwardingChannel]:
    """Give the broker's channel."""
    async with channel_of(broker) as found:
        yield found


@pytest.mark.requirement("F-18", "F-16")
@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_the_clients_bytes_arrive_untouched(
    channel: ForwardingChannel, controller: ScriptedController, version: int
) -> None:
    ctx, frame = client_request(TOPIC, version)
    await channel.forward(ctx, memoryview(frame))
    [envelope] = controller.envelopes
    assert envelope.request_data == frame
    assert envelope.request_principal == DefaultPrincipalSerde().serialize(ALICE)
    assert envelope.client_host_address == bytes([192, 0, 2, 7])


@pytest.mark.requirement("F-26", "F-17")
async def test_the_controllers_bytes_come_back_untouched(
    channel: ForwardingChannel, controller: ScriptedController
) -> None:
    response = CreateAclsResponse(results=[])
    response.throttle_time_ms = 40

    async def refuse(envelope: EnvelopeRequest) -> EnvelopeResponse:
        return EnvelopeResponse(response_data=response_to(envelope.request_data, response))

    controller.script = refuse
    ctx, frame = client_request(TWO_ACLS, 1)
    answer = await channel.forward(ctx, memoryview(frame))
    assert answer.frame == response_to(frame, response)
    assert ctx.throttle_ms == 40


@pytest.mark.requirement("F-25", "H-07")
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_any_other_error_is_unknown_to_the_client_and_explained_in_the_log(
    channel: ForwardingChannel, controller: ScriptedController, error: ErrorCode
) -> None:
    async def refuse(envelope: EnvelopeRequest) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=error)

    controller.script = refuse
    with capture_logs() as lines:
        for version in (1, 3):
            answer = await forwarded(channel, TWO_ACLS, version)
            assert [r.error_code for r in answer.results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    [said] = [line for line in lines if line["log_level"] == "warning"]
    assert (said["client_id"], said["api"], said["error"]) == ("tool", "CREATE_ACLS", error.name)
    assert said["remedy"]


FORWARDED = [row for row in API_KEYS.values() if row.forwardable and "broker" in row.listeners]


@pytest.mark.requirement("F-25")
@pytest.mark.parametrize("row", FORWARDED, ids=lambda row: row.name)
async def test_every_api_can_say_unknown(channel: ForwardingChannel, controller: ScriptedController, row: Any) -> None:
    async def refuse(envelope: EnvelopeRequest) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    controller.script = refuse
    for version in (row.min_version, row.max_version):
        codes = set(error_codes(await forwarded(channel, build(row.key), version)))
        assert codes <= {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE}
        assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in codes


@pytest.mark.requirement("F-37")
async def test_a_request_that_the_controller_cannot_read_ends_the_clients_connection(
    channel: ForwardingChannel, controller: ScriptedController
) -> None:
    async def refuse(envelope: EnvelopeRequest) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

    controller.script = refuse
    with pytest.raises(ProtocolError):
        await forwarded(channel, TWO_ACLS)


@pytest.mark.requirement("F-23")
@pytest.mark.parametrize("row", FORWARDED, ids=lambda row: row.name)
async def test_without_a_controller_a_request_times_out_in_its_own_shape(
    controller: ScriptedController, row: Any
) -> None:
    broker = Broker(broker_config(request__timeout__ms="60"), leader=controller.target)
    await controller.stop()
    async with channel_of(broker) as channel:
        for leader in (broker.leader, None):
            broker.elect(leader)
            async with asyncio.timeout(60):
                answer = await forwarded(channel, build(row.key))
            assert isinstance(answer, row.response)
    one_error = [f for f in ("error_code",) if hasattr(answer, f)]
    assert all(getattr(answer, f) == ErrorCode.REQUEST_TIMED_OUT for f in one_error)


@pytest.mark.requirement("F-23", "F-22", "H-01")
async def test_who_is_not_the_controller_any_more_is_left_for_who_is(
    broker: Broker, channel: ForwardingChannel
) -> None:
    async with ScriptedController(node_id=101) as next_one:
        elected = asyncio.Event()

        async def deposed(envelope: EnvelopeRequest) -> EnvelopeResponse:
            elected.set()
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

        async with ScriptedController(deposed) as old:
            broker.elect(old.target)
            task = asyncio.create_task(forwarded(channel, TWO_ACLS))
            await elected.wait()
            broker.elect(next_one.target)
            answer = await task
            assert answer.results == []
            assert len(next_one.envelopes) == 1


@pytest.mark.requirement("F-22")
@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER])
async def test_an_answer_that_only_the_leader_can_give_is_asked_for_again(
    channel: ForwardingChannel, controller: ScriptedController, key: ApiKey
) -> None:
    row = API_KEYS[key]

    async def not_yet(envelope: EnvelopeRequest) -> EnvelopeResponse:
        response: Any = row.response()
        if len(controller.envelopes) < 3:
            response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return EnvelopeResponse(response_data=response_to(envelope.request_data, response))

    controller.script = not_yet
    answer = await forwarded(channel, build(key))
    assert (answer.error_code, len(controller.envelopes)) == (ErrorCode.NONE, 3)


@pytest.mark.requirement("F-23", "H-09")
async def test_a_cut_connection_is_made_anew(channel: ForwardingChannel, controller: ScriptedController) -> None:
    async def cut_once(envelope: EnvelopeRequest) -> EnvelopeResponse | None:
        return None if len(controller.envelopes) == 1 else await done(envelope)

    controller.script = cut_once
    assert (await forwarded(channel, TWO_ACLS)).results == []
    assert len(controller.envelopes) == 2


@pytest.mark.requirement("H-05")
async def test_a_silent_controller_costs_no_more_than_the_election_of_the_next(
    broker: Broker, channel: ForwardingChannel, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{RUNNER}.GRACE_S", LONG_S)  # it has not been asked anything yet, so it is not waited for
    controller.silent = True
    async with ScriptedController(node_id=101) as next_one:
        task = asyncio.create_task(forwarded(channel, TWO_ACLS))
        await controller.seen(connections=1)
        broker.elect(next_one.target)
        async with asyncio.timeout(60):
            assert (await task).results == []


@pytest.mark.requirement("H-05")
async def test_a_controller_that_falls_silent_is_noticed_and_one_that_thinks_is_waited_for(
    controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{RUNNER}.SILENCE_S", 0.05)
    broker = Broker(broker_config(), leader=controller.target)
    thinking = asyncio.Event()

    async def think(envelope: EnvelopeRequest) -> EnvelopeResponse:
        if envelope.request_data == slow:
            await thinking.wait()
        return await done(envelope)

    async with channel_of(broker) as channel:
        controller.script = think
        ctx, slow = client_request(TOPIC)
        patient = asyncio.create_task(channel.forward(ctx, memoryview(slow)))
        await controller.seen(connections=4)  # it has been looked after more than once
        assert not patient.done()
        thinking.set()
        await patient
        assert len(controller.envelopes) == 1

        monkeypatch.setattr(f"{RUNNER}.CONNECT_MS", 200)
        controller.script = done
        controller.silent = True
        task = asyncio.create_task(forwarded(channel, TWO_ACLS))
        before = controller.connections
        await controller.seen(connections=before + 2)
        controller.silent = False
        assert (await task).results == []


@pytest.mark.requirement("H-06")
async def test_a_slow_request_holds_up_nobody_else(
    channel: ForwardingChannel, controller: ScriptedController, broker: Broker
) -> None:
    go_on = asyncio.Event()

    async def slow_topics(envelope: EnvelopeRequest) -> EnvelopeResponse:
        if envelope.request_data[:2] == ApiKey.CREATE_TOPICS.to_bytes(2, "big"):
            await go_on.wait()
        return await done(envelope)

    async def heartbeat(request: Any, version: int) -> Any:
        return BrokerHeartbeatResponse(is_fenced=False)

    controller.script, controller.own = slow_topics, heartbeat
    slow = [asyncio.create_task(forwarded(channel, TOPIC)) for _ in range(4)]
    await controller.seen(envelopes=4)
    assert (await forwarded(channel, TWO_ACLS)).results == []
    more = [asyncio.create_task(forwarded(channel, TOPIC)) for _ in range(4)]
    await channel.call(BrokerHeartbeatRequest(broker_id=2), 1)
    [(_, values)] = broker.metrics.registry.values("kafka.server:type=ForwardingManager")
    assert values["QueueLength"] == 8
    assert not any(task.done() for task in slow)
    go_on.set()
    await asyncio.gather(*slow, *more)
    [(_, values)] = broker.metrics.registry.values("kafka.server:type=ForwardingManager")
    assert values["QueueLength"] == 0
    for name in ("QueueTimeMs.p99", "QueueTimeMs.p999", "RemoteTimeMs.p99", "RemoteTimeMs.p999"):
        assert float(values[name]) >= 0


@pytest.mark.requirement("F-40")
async def test_forwarded_requests_are_counted_by_client(
    channel: ForwardingChannel, controller: ScriptedController, broker: Broker
) -> None:
    for client_id in ("one", "two", "two"):
        await forwarded(channel, TWO_ACLS, client_id=client_id)
    name = "kafka.server:type=RequestMetrics,name=NumRequestsForwardingToControllerPerSec,clientId="
    found = {n.removeprefix(name): values["Count"] for n, values in broker.metrics.registry.values(name + "*")}
    assert found == {"one": 1, "two": 2}


@pytest.mark.requirement("F-36", "F-35")
async def test_the_versions_are_those_of_the_controller_last_connected_to(
    broker: Broker, channel: ForwardingChannel, controller: ScriptedController
) -> None:
    assert channel.controller_versions() is None
    await forwarded(channel, TWO_ACLS)
    found = channel.controller_versions()
    assert found is not None
    assert found[ApiKey.CREATE_TOPICS] == (2, 7)
    async with ScriptedController(node_id=101) as older:
        older.versions = {**older.versions, ApiKey.CREATE_TOPICS: (2, 5)}
        broker.elect(older.target)
        await forwarded(channel, TWO_ACLS)
        found = channel.controller_versions()
        assert found is not None
        assert found[ApiKey.CREATE_TOPICS] == (2, 5)


async def test_a_client_that_goes_away_leaves_the_connection_to_others(
    channel: ForwardingChannel, controller: ScriptedController
) -> None:
    go_on = asyncio.Event()

    async def wait(envelope: EnvelopeRequest) -> EnvelopeResponse:
        await go_on.wait()
        return await done(envelope)

    controller.script = wait
    gone = asyncio.create_task(forwarded(channel, TWO_ACLS))
    await controller.seen(envelopes=1)
    gone.cancel()
    await asyncio.wait([gone])
    go_on.set()
    await forwarded(channel, TWO_ACLS)
    await forwarded(channel, TWO_ACLS)
    assert controller.connections <= 2


# --- a node's own requests, and those for clients


async def test_own_requests_speak_the_controllers_version_and_are_sent_until_answered(
    channel: ForwardingChannel, controller: ScriptedController
) -> None:
    asked: list[int] = []

    async def answer(request: Any, version: int) -> Any:
        asked.append(version)
        wrong = len(asked) < 3
        return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER if wrong else ErrorCode.NONE)

    controller.own = answer
    controller.versions = {**controller.versions, ApiKey.BROKER_HEARTBEAT: (0, 0)}
    answered = await channel.call(BrokerHeartbeatRequest(broker_id=2), 1)
    assert (answered.error_code, asked) == (ErrorCode.NONE, [0, 0, 0])


async def test_a_request_that_the_controller_does_not_know_is_not_sent_for_ever(
    channel: ForwardingChannel, controller: ScriptedController
) -> None:
    controller.versions = {k: v for k, v in controller.versions.items() if k != ApiKey.BROKER_HEARTBEAT}
    with pytest.raises(ApiError, match="UNSUPPORTED_VERSION"):
        await channel.call(BrokerHeartbeatRequest(broker_id=2), 1)


@pytest.mark.requirement("F-08")
async def test_a_topic_that_a_client_asked_for_is_created_in_its_name(
    channel: ForwardingChannel, controller: ScriptedController
) -> None:
    controller.versions = {**controller.versions, ApiKey.CREATE_TOPICS: (2, 5)}
    ctx, _ = client_request(DescribeQuorumRequest())
    answer = await channel.call(TOPIC, 7, ctx)
    assert isinstance(answer, CreateTopicsResponse)
    [envelope] = controller.envelopes
    assert envelope.request_principal == DefaultPrincipalSerde().serialize(ALICE)
    assert envelope.request_data == client_request(TOPIC, 5)[1]


# --- requests that had to be sent twice


def with_topic(partitions: int = 1, topic_id: Uuid = TOPIC_ID) -> MetadataImage:
    """Give metadata with the topic `t`."""
    records: list[Any] = [TopicRecord(name="t", topic_id=topic_id)]
    records += [
        PartitionRecord(partition_id=p, topic_id=topic_id, replicas=[2], isr=[2], leader=2) for p in range(partitions)
    ]
    return replayed(records)


def replayed(records: Sequence[Any]) -> MetadataImage:
    """Give the metadata that these records make."""
    return replay(MetadataImage.EMPTY, [VersionedRecord(record, 0) for record in records])


def already_there(controller: ScriptedController, broker: Broker, partitions: int | None) -> None:
    """Let the controller create `t`, cut the answer, and then find it there."""

    async def script(envelope: EnvelopeRequest) -> EnvelopeResponse | None:
        if len(controller.envelopes) == 1:
            if partitions is not None:
                broker.learn(with_topic(partitions))
            return None
        result = CreatableTopicResult(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
        return EnvelopeResponse(response_data=response_to(envelope.request_data, CreateTopicsResponse(topics=[result])))

    controller.script = script


@pytest.mark.requirement("H-09")
@pytest.mark.parametrize("version", [2, 7])
async def test_a_topic_made_by_the_attempt_whose_answer_was_lost_is_a_success(
    broker: Broker, channel: ForwardingChannel, controller: ScriptedController, version: int
) -> None:
    already_there(controller, broker, 1)
    [result] = (await forwarded(channel, TOPIC, version)).topics
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    if version == 7:
        assert (result.topic_id, result.num_partitions, result.replication_factor) == (TOPIC_ID, 1, 1)


@pytest.mark.requirement("H-09")
async def test_the_proof_may_come_as_long_as_the_request_has_time(
    broker: Broker, channel: ForwardingChannel, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.server.forwarding.channel.PROOF_S", 0)
    already_there(controller, broker, None)
    task = asyncio.create_task(forwarded(channel, TOPIC))
    await controller.seen(envelopes=2)

    async def unanswered() -> object:
        [(_, values)] = broker.metrics.registry.values("kafka.server:type=ForwardingManager")
        return values["QueueLength"]

    await eventually(unanswered, 0)
    assert not task.done()
    broker.learn(MetadataImage.EMPTY)
    broker.learn(with_topic())
    assert [r.error_code for r in (await task).topics] == [ErrorCode.NONE]


@pytest.mark.requirement("H-09")
async def test_a_topic_of_somebody_else_still_exists(
    broker: Broker, channel: ForwardingChannel, controller: ScriptedController
) -> None:
    already_there(controller, broker, 5)
    assert [r.error_code for r in (await forwarded(channel, TOPIC)).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    controller.envelopes.clear()
    broker.learn(with_topic())
    already_there(controller, broker, 1)
    assert [r.error_code for r in (await forwarded(channel, TOPIC)).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]


@pytest.mark.requirement("H-09")
async def test_an_answer_to_a_request_sent_once_is_never_changed(
    broker: Broker, channel: ForwardingChannel, controller: ScriptedController
) -> None:
    async def exists(envelope: EnvelopeRequest) -> EnvelopeResponse:
        broker.learn(with_topic())
        result = CreatableTopicResult(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
        return EnvelopeResponse(response_data=response_to(envelope.request_data, CreateTopicsResponse(topics=[result])))

    controller.script = exists
    assert [r.error_code for r in (await forwarded(channel, TOPIC)).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]


async def test_closing_ends_what_is_under_way(broker: Broker, controller: ScriptedController) -> None:
    async def never(envelope: EnvelopeRequest) -> EnvelopeResponse:
        await asyncio.Event().wait()
        raise AssertionError

    controller.script = never
    async with channel_of(broker) as channel:
        task = asyncio.create_task(forwarded(channel, TWO_ACLS))
        await controller.seen(envelopes=1)
    await asyncio.wait([task])
    assert task.cancelled()


# --- certificates


@pytest.mark.requirement("H-05")
async def test_renewed_certificates_are_used_for_new_connections(tmp_path: Path) -> None:
    old, new = DevCa.create("old"), DevCa.create("new")
    store, trusted = tmp_path / "server.pem", tmp_path / "ca.pem"

    def issue(authority: DevCa) -> None:
        store.write_bytes(authority.issue_server().store)
        trusted.write_bytes(authority.certificate_pem)

    issue(old)
    stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    tls = ServerTls(TlsConfig.parse(stores))
    async with ScriptedController(tls=tls.context) as controller:
        config = broker_config(
            listener__security__protocol__map="CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
            ssl__truststore__type="PEM",
            ssl__truststore__location=str(trusted),
        )
        async with channel_of(Broker(config, leader=controller.target)) as channel:
            assert (await forwarded(channel, TWO_ACLS)).results == []
            issue(new)
            assert tls.reload_if_changed()
            controller.cut()
            assert (await forwarded(channel, TWO_ACLS)).results == []
            assert controller.connections >= 2
