"""One partition's changes: who leads, who is in sync, who may come back (KIP-966), as Kafka decides it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.partition_changes import Election, Surroundings, Target, change_partition
from barnabas.core.metadata.topics import RECOVERED, RECOVERING, PartitionRegistration
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from tests.core.metadata.clusters import a_partition
from tests.core.metadata.metadata_records import a_uuid


def changed(
    partition: PartitionRegistration,
    target: Target,
    *,
    alive: set[int],
    elr: bool = False,
    min_isr: int = 1,
    metadata_version: int = 30,
) -> PartitionChangeRecord | None:
    around = Surroundings(Levels(metadata_version, elr), alive.__contains__, a_uuid, min_isr)
    versioned = change_partition(partition, a_uuid(900), 0, around, target)
    return None if versioned is None else versioned.record


def record(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=a_uuid(900), **fields)


def test_nothing_to_change_is_no_record() -> None:
    assert changed(a_partition([1, 2]), Target(), alive={1, 2}) is None


def test_the_next_in_sync_replica_leads_when_the_leader_goes() -> None:
    partition = a_partition([1, 2, 3])
    assert changed(partition, Target(isr=(2, 3)), alive={2, 3}) == record(leader=2, isr=[2, 3])


def test_a_follower_that_goes_changes_only_the_isr() -> None:
    partition = a_partition([1, 2, 3])
    assert changed(partition, Target(isr=(1, 3)), alive={1, 3}) == record(isr=[1, 3])


def test_before_3_6_a_smaller_isr_takes_a_new_leader_epoch() -> None:
    partition = a_partition([1, 2, 3])
    assert changed(partition, Target(isr=(1, 3)), alive={1, 3}, metadata_version=11) == record(leader=1, isr=[1, 3])
    smaller = a_partition([1, 2, 3], [1, 2])
    assert changed(smaller, Target(isr=(1, 2, 3)), alive={1, 2, 3}, metadata_version=11) == record(isr=[1, 2, 3])


def test_the_last_in_sync_replica_stays_in_the_isr_without_a_leader() -> None:
    partition = a_partition([1, 2], [1])
    assert changed(partition, Target(isr=()), alive={2}) == record(leader=-1)
    gone = a_partition([1, 2], [1], leader=-1)
    assert changed(gone, Target(), alive={2}) is None
    assert changed(gone, Target(), alive={1, 2}) == record(leader=1)


def test_an_unclean_election_is_only_held_when_allowed_and_leaves_a_mark() -> None:
    partition = a_partition([1, 2], [1])
    target = Target(isr=(), election=Election.UNCLEAN)
    assert changed(partition, target, alive={2}) == record(leader=2, isr=[2], leader_recovery_state=RECOVERING)
    recovering = a_partition([1, 2], [1], leader_recovery_state=RECOVERING)
    assert changed(recovering, target, alive={2}) == record(leader=2, isr=[2])


def test_the_preferred_replica_leads_again_when_asked_for() -> None:
    partition = a_partition([1, 2], [2, 1], leader=2)
    assert changed(partition, Target(election=Election.ONLINE), alive={1, 2}) is None
    assert changed(partition, Target(election=Election.PREFERRED), alive={1, 2}) == record(leader=1)
    assert changed(partition, Target(election=Election.PREFERRED), alive={2}) is None


def test_eligible_leader_replicas_remember_who_was_in_sync() -> None:
    partition = a_partition([1, 2, 3])
    one = changed(partition, Target(isr=(1,)), alive={1}, elr=True, min_isr=2)
    assert one == record(isr=[1], eligible_leader_replicas=[2, 3])
    assert one is not None
    partition = partition.changed(one)
    none = changed(partition, Target(isr=()), alive=set(), elr=True, min_isr=2)
    assert none == record(isr=[], leader=-1, eligible_leader_replicas=[1, 2, 3], last_known_elr=[1])
    assert none is not None
    partition = partition.changed(none)
    back = changed(partition, Target(), alive={3}, elr=True, min_isr=2)
    assert back == record(leader=3, isr=[3], eligible_leader_replicas=[1, 2], last_known_elr=[])
    assert back is not None
    partition = partition.changed(back)
    whole = changed(partition, Target(isr=(3, 1)), alive={1, 3}, elr=True, min_isr=2)
    assert whole == record(isr=[3, 1], eligible_leader_replicas=[])


def test_a_replica_that_crashed_is_not_eligible_but_the_last_leader_may_come_back_uncleanly() -> None:
    partition = a_partition([1])
    crashed = changed(partition, Target(isr=(), unclean=(1,)), alive=set(), elr=True)
    assert crashed == record(isr=[], leader=-1, last_known_elr=[1])
    assert crashed is not None
    partition = partition.changed(crashed)
    back = changed(partition, Target(), alive={1}, elr=True)
    assert back == record(isr=[1], leader=1, leader_recovery_state=RECOVERING, last_known_elr=[])


def test_the_leader_reports_that_it_has_recovered() -> None:
    partition = a_partition([1], leader_recovery_state=RECOVERING)
    assert changed(partition, Target(isr=(1,), recovery_state=RECOVERED), alive={1}) == record(
        leader_recovery_state=RECOVERED
    )


def test_a_reassignment_starts_and_ends_when_the_new_replicas_are_in_sync() -> None:
    partition = a_partition([1, 2])
    start = changed(partition, Target(replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2)), alive={1, 2, 3, 4})
    assert start == record(
        replicas=[3, 4, 1, 2],
        directories=[a_uuid(3), a_uuid(4), a_uuid(1), a_uuid(2)],
        adding_replicas=[3, 4],
        removing_replicas=[1, 2],
    )
    assert start is not None
    partition = partition.changed(start)
    half = changed(partition, Target(isr=(1, 2, 3)), alive={1, 2, 3, 4})
    assert half == record(isr=[1, 2, 3])
    end = changed(partition, Target(isr=(1, 2, 3, 4)), alive={1, 2, 3, 4})
    assert end == record(
        leader=3,
        isr=[3, 4],
        replicas=[3, 4],
        directories=[a_uuid(3), a_uuid(4)],
        adding_replicas=[],
        removing_replicas=[],
    )


def test_a_replica_that_is_dropped_costs_a_leader_epoch() -> None:
    partition = a_partition([1, 2, 3])
    target = Target(replicas=(1, 2, 3), removing=(3,))
    assert changed(partition, target, alive={1, 2, 3}) == record(
        leader=1, isr=[1, 2], replicas=[1, 2], directories=[a_uuid(1), a_uuid(2)]
    )


def test_a_smaller_assignment_waits_for_all_its_replicas() -> None:
    partition = a_partition([2, 3, 0, 1], [0], removing_replicas=(0, 1))
    assert changed(partition, Target(isr=(0, 2)), alive={0, 1, 2, 3}) == record(isr=[0, 2])


@pytest.mark.parametrize(("metadata_version", "version"), [(7, 0), (17, 1), (23, 2)])
def test_the_record_has_the_version_that_the_level_knows(metadata_version: int, version: int) -> None:
    around = Surroundings(Levels(metadata_version), {2}.__contains__, a_uuid)
    versioned = change_partition(a_partition([1, 2]), a_uuid(900), 0, around, Target(isr=(2,)))
    assert versioned is not None
    assert versioned.version == version
