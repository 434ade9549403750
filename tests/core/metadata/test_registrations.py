"""A broker's life: registered, unfenced, heard of, shut down, lost, forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.core.metadata.heartbeats import BrokerHeartbeats
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.registrations import (
    HeartbeatReply,
    check_broker_epoch,
    fence_ended_broker,
    fence_stale_broker,
    process_heartbeat,
    register_broker,
    register_controller,
    unregister_broker,
)
from barnabas.core.replicated import Decision
from barnabas.model.features import SUPPORTED_FEATURES
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.wire.messages.controller_registration import ControllerRegistrationRequest
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.register_broker_record import RegisterBrokerRecord
from tests.core.metadata.clusters import SCHEMA, a_cluster, a_partition, apply, with_topic
from tests.core.metadata.metadata_records import a_uuid

E = ErrorCode
ALL = [
    Feature(name=name, min_supported_version=low, max_supported_version=high)
    for name, (low, high) in SUPPORTED_FEATURES.items()
]
REGISTRATION = BrokerRegistrationRequest(
    broker_id=1,
    cluster_id="c",
    incarnation_id=a_uuid(1),
    listeners=[Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
    features=ALL,
    rack="r",
    log_dirs=[a_uuid(1)],
)


class Controller:
    """An image, the soft state beside it and a clock: one broker after the other talks to it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.heartbeats = BrokerHeartbeats(9_000)
        self.now_ms = 0
        self.heartbeats.activate(image, 0)

    def register(self, request: BrokerRegistrationRequest = REGISTRATION, **fields: Any) -> list[Any]:
        decision = register_broker(
            self.image,
            replace(request, **fields),
            SCHEMA,
            self.heartbeats,
            cluster_id="c",
            new_epoch=self.image.offset_epoch.offset + 1,
            now_ms=self.now_ms,
        )
        self.image = apply(self.image, decision.records)
        self.heartbeats.registered(request.broker_id, decision.response, self.image.offset_epoch.offset)
        return [r.record for r in decision.records]

    def beat(self, broker: int = 1, connection: str = "", **fields: Any) -> HeartbeatReply:
        epoch = self.image.cluster.brokers[broker].epoch
        fields.setdefault("current_metadata_offset", self.image.offset_epoch.offset)
        request = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, **fields)
        self.heartbeats.contacted(broker, epoch, self.now_ms, connection)
        decision = process_heartbeat(self.image, request, SCHEMA, self.heartbeats)
        self.image = apply(self.image, decision.records)
        if decision.response.in_controlled_shutdown:
            registration = self.image.cluster.brokers[broker]
            self.heartbeats.shutting_down(self.image, registration, self.image.offset_epoch.offset)
        return decision.response


def refused(controller: Controller, **fields: Any) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        controller.register(**fields)
    return error.value.code


def test_a_broker_registers_fenced_and_is_unfenced_when_it_has_read_so() -> None:
    controller = Controller(a_cluster())
    [record] = controller.register()
    assert isinstance(record, RegisterBrokerRecord)
    broker = controller.image.cluster.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack, broker.directories) == (1001, True, "r", (a_uuid(1),))
    assert controller.beat(current_metadata_offset=1000) == (False, True, False, False)
    assert controller.beat(want_fence=True).fenced
    assert controller.beat() == (True, False, False, False)
    assert controller.image.cluster.active(1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "other"}, E.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, E.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, E.INVALID_REGISTRATION),
        ({"log_dirs": [Uuid(bytes(16))]}, E.INVALID_REGISTRATION),
        ({"log_dirs": [a_uuid(1), a_uuid(1)]}, E.INVALID_REGISTRATION),
        ({"log_dirs": [a_uuid(7)]}, E.INVALID_REGISTRATION),
        ({"features": []}, E.INVALID_REGISTRATION),
        ({"features": ALL[1:]}, E.INVALID_REGISTRATION),
        ({"features": ALL[:1]}, E.UNSUPPORTED_VERSION),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)]},
            E.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_a_broker_that_does_not_fit_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    assert refused(Controller(a_cluster(7, elr=True)), **fields) is code


def test_a_second_broker_with_the_id_waits_until_the_first_is_silent() -> None:
    controller = Controller(a_cluster())
    controller.register()
    controller.beat()
    assert refused(controller, incarnation_id=a_uuid(2)) is E.DUPLICATE_BROKER_REGISTRATION
    controller.now_ms = 9_001
    controller.register(incarnation_id=a_uuid(2))
    assert controller.image.cluster.brokers[1].fenced


def test_registering_again_keeps_epoch_and_standing() -> None:
    controller = Controller(a_cluster())
    controller.register()
    controller.beat()
    controller.register(rack="new")
    broker = controller.image.cluster.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (1001, False, "new")


def test_after_a_restart_of_both_the_own_earlier_broker_is_not_waited_for() -> None:
    image = a_cluster(1)
    controller = Controller(image)
    assert refused(controller) is E.DUPLICATE_BROKER_REGISTRATION
    controller.heartbeats.activate(image, 0, own_id=1)
    controller.register()


def test_an_old_epoch_is_refused() -> None:
    image = a_cluster(1)
    assert check_broker_epoch(image, 1, 101).id == 1
    for broker, epoch in ((1, 100), (2, 1)):
        with pytest.raises(ApiError) as error:
            check_broker_epoch(image, broker, epoch)
        assert error.value.code is E.STALE_BROKER_EPOCH


def test_a_broker_leaves_when_it_leads_no_more_and_the_others_know() -> None:
    image = with_topic(a_cluster(1, 2), "t", a_partition([1, 2]))
    controller = Controller(image)
    controller.beat(2)
    reply = controller.beat(1, want_shut_down=True)
    assert reply == (True, False, True, False)
    partition = controller.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    assert controller.beat(1, want_shut_down=True).in_controlled_shutdown, "broker 2 has not read it yet"
    controller.beat(2)
    assert controller.beat(1, want_shut_down=True) == (True, True, False, True)
    assert controller.image.cluster.brokers[1].fenced


def test_a_lone_broker_leaves_and_leads_again_when_it_is_back() -> None:
    controller = Controller(with_topic(a_cluster(1), "t", a_partition([1])))
    assert controller.beat(want_shut_down=True).in_controlled_shutdown
    assert controller.image.topics.by_name["t"].partitions[0].leader == -1
    assert controller.beat(want_shut_down=True).should_shut_down
    controller.now_ms = 20_000
    controller.register()
    assert not controller.image.cluster.active(1)
    controller.beat()
    partition = controller.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 2)


def test_with_eligible_leaders_a_clean_stop_is_told_from_a_crash() -> None:
    stopped = Controller(with_topic(a_cluster(1, elr=True), "t", a_partition([1])))
    stopped.beat(want_shut_down=True)
    stopped.beat(want_shut_down=True)
    assert stopped.image.topics.by_name["t"].partitions[0].elr == (1,)
    crashed = Controller(stopped.image)
    stopped.now_ms = crashed.now_ms = 20_000
    stopped.register(previous_broker_epoch=101)
    stopped.beat()
    after = stopped.image.topics.by_name["t"].partitions[0]
    assert (after.leader, after.leader_recovery_state) == (1, 0)
    crashed.register(previous_broker_epoch=-1)
    assert crashed.image.topics.by_name["t"].partitions[0].elr == ()
    crashed.beat()
    after = crashed.image.topics.by_name["t"].partitions[0]
    assert (after.leader, after.leader_recovery_state) == (1, 1)


def test_a_silent_broker_is_fenced_once() -> None:
    controller = Controller(with_topic(a_cluster(1, 2), "t", a_partition([1, 2])))
    controller.now_ms = 9_000
    controller.beat(2)
    assert not fence_stale_broker(controller.image, SCHEMA, controller.heartbeats, 9_000).response
    decision = fence_stale_broker(controller.image, SCHEMA, controller.heartbeats, 9_001)
    assert decision.response
    controller.image = apply(controller.image, decision.records)
    assert controller.image.cluster.brokers[1].fenced
    assert controller.image.topics.by_name["t"].partitions[0].leader == 2
    assert not fence_stale_broker(controller.image, SCHEMA, controller.heartbeats, 9_001).response
    assert not controller.beat(1).fenced, "it comes back by its next heartbeat"


def test_a_broker_that_has_ended_is_fenced_before_its_session_ends() -> None:
    controller = Controller(with_topic(a_cluster(1, 2), "t", a_partition([1, 2])))
    controller.beat(1, connection="a")
    controller.beat(2, connection="b")
    assert controller.heartbeats.cut_off("c") is None
    suspect = controller.heartbeats.cut_off("a")
    assert suspect is not None
    decision = fence_ended_broker(controller.image, SCHEMA, controller.heartbeats, suspect)
    assert decision.response
    controller.image = apply(controller.image, decision.records)
    assert controller.image.cluster.brokers[1].fenced
    assert controller.image.topics.by_name["t"].partitions[0].leader == 2
    assert not fence_ended_broker(controller.image, SCHEMA, controller.heartbeats, suspect).response
    controller.register(incarnation_id=a_uuid(2))  # no earlier run's session is in its way
    assert not controller.beat(1).fenced


def test_who_is_known_from_the_log_only_may_be_suspected() -> None:
    controller = Controller(a_cluster(1, 2))
    controller.beat(2, connection="b")
    assert controller.heartbeats.never_heard(1, 101) == (1, 101, "")
    assert controller.heartbeats.never_heard(2, 102) is None
    assert controller.heartbeats.never_heard(1, 100) is None


def test_a_suspect_that_is_heard_of_again_is_left_alone() -> None:
    controller = Controller(a_cluster(1))
    controller.beat(1, connection="a")
    suspect = controller.heartbeats.cut_off("a")
    assert suspect is not None
    controller.beat(1, connection="b")
    assert controller.heartbeats.cut_off("a") is None, "its last heartbeat came by another connection"
    assert fence_ended_broker(controller.image, SCHEMA, controller.heartbeats, suspect) == Decision((), False)
    again = controller.heartbeats.cut_off("b")
    assert again is not None
    controller.image = apply(controller.image, unregister_broker(controller.image, SCHEMA, 1).records)
    assert fence_ended_broker(controller.image, SCHEMA, controller.heartbeats, again).records == ()


def test_a_lost_directory_takes_its_replicas_along() -> None:
    image = with_topic(a_cluster(2), "t")
    controller = Controller(image)
    controller.register(log_dirs=[a_uuid(1), a_uuid(11)])
    controller.beat()
    here = a_partition([1, 2])
    there = replace(here, directories=(a_uuid(11), a_uuid(2)))
    controller.image = with_topic(controller.image, "t", here, there)
    controller.beat(offline_log_dirs=[a_uuid(11)])
    partitions = controller.image.topics.by_name["t"].partitions
    assert [partitions[i].leader for i in (0, 1)] == [1, 2]
    assert controller.image.cluster.brokers[1].directories == (a_uuid(1),)
    before = controller.image
    controller.beat(offline_log_dirs=[a_uuid(11)])
    assert controller.image.topics == before.topics


def test_cordoned_directories_are_noted_when_they_change() -> None:
    controller = Controller(a_cluster())
    controller.register()
    controller.beat(cordoned_log_dirs=[a_uuid(1)])
    assert not controller.image.cluster.brokers[1].takes_replicas
    offset = controller.image.offset_epoch.offset
    controller.beat(cordoned_log_dirs=[a_uuid(1)])
    assert controller.image.offset_epoch.offset == offset
    controller.beat(cordoned_log_dirs=[])
    assert controller.image.cluster.brokers[1].takes_replicas


def test_a_broker_is_forgotten_only_if_it_is_known() -> None:
    image = with_topic(a_cluster(1, 2), "t", a_partition([1, 2]))
    after = apply(image, unregister_broker(image, SCHEMA, 1).records)
    assert set(after.cluster.brokers) == {2}
    assert after.topics.by_name["t"].partitions[0].isr == (2,)
    with pytest.raises(ApiError) as error:
        unregister_broker(after, SCHEMA, 1)
    assert error.value.code is E.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(("metadata_version", "version"), [(7, 1), (8, 2), (17, 3), (30, 4)])
def test_registrations_have_the_version_that_the_level_knows(metadata_version: int, version: int) -> None:
    decision = register_broker(
        a_cluster(metadata_version=metadata_version), REGISTRATION, SCHEMA, BrokerHeartbeats(1),
        cluster_id="c", new_epoch=5, now_ms=0,
    )  # fmt: skip
    assert decision.records[-1].version == version


def test_fencing_is_written_as_kafka_writes_it() -> None:
    controller = Controller(a_cluster(1))
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, current_metadata_offset=1000, want_fence=True)
    [versioned] = process_heartbeat(controller.image, request, SCHEMA, controller.heartbeats).records
    assert versioned == (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1), 0)


def test_controllers_register_from_3_7_on() -> None:
    request = ControllerRegistrationRequest(controller_id=3, incarnation_id=a_uuid(3))
    after = apply(a_cluster(), register_controller(a_cluster(), request).records)
    assert after.cluster.controllers[3].incarnation_id == a_uuid(3)
    with pytest.raises(ApiError) as error:
        register_controller(a_cluster(metadata_version=14), request)
    assert error.value.code is E.UNSUPPORTED_VERSION
