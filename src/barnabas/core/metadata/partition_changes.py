"""How one partition changes: its leader, ISR, eligible leaders, replicas, as one PartitionChangeRecord or none.

Every change goes through here: broker failures, heartbeats, elections, AlterPartition, reassignments. A partition
keeps its leader while that is possible; a leader comes from the ISR, with eligible leader replicas (KIP-966) from the
ELR when the ISR is empty, and only if asked for from the rest (an unclean election, which may lose records).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.topics import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERING,
    PartitionRegistration,
)
from barnabas.core.replicated import VersionedRecord
from barnabas.model.uuid import Uuid
from barnabas.wire.records.partition_change_record import PartitionChangeRecord


class Election(Enum):
    """Who may lead. ONLINE: keep it online from the ISR; PREFERRED: rather by the first replica; UNCLEAN: by any."""

    PREFERRED = 1
    ONLINE = 2
    UNCLEAN = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a change is decided against. acceptable: who may lead now; directory_of: where a new replica goes."""

    levels: Levels
    acceptable: Callable[[int], bool]
    directory_of: Callable[[int], Uuid]
    min_isr: int = 1


@dataclass(frozen=True, slots=True)
class Target:
    """What the partition should become; None keeps what it is. unclean: replicas that shut down uncleanly."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: int | None = None
    directories: Mapping[int, Uuid] = field(default_factory=dict)
    unclean: Collection[int] = ()
    election: Election = Election.ONLINE


@dataclass(slots=True)
class _Plan:
    """The partition as it is to be, while it is worked out."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int = NO_LEADER_CHANGE
    unclean_election: bool = False


def change_partition(
    partition: PartitionRegistration,
    topic_id: Uuid,
    number: int,
    around: Surroundings,
    target: Target,
) -> VersionedRecord | None:
    """Give the record that brings the partition to the target as far as possible; None when nothing changes."""
    plan = _Plan(
        isr=partition.isr if target.isr is None else target.isr,
        replicas=partition.replicas if target.replicas is None else target.replicas,
        adding=partition.adding_replicas if target.adding is None else target.adding,
        removing=partition.removing_replicas if target.removing is None else target.removing,
        elr=partition.elr,
    )
    _complete_reassignment(plan)
    if around.levels.elr:
        plan.elr = _eligible(partition, plan, around.min_isr, target.unclean)
    _elect(partition, plan, around, target.election)
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    record.leader = plan.leader
    if plan.leader == NO_LEADER_CHANGE and not set(partition.replicas) <= set(plan.replicas):
        record.leader = partition.leader  # a replica went: a new leader epoch, so that it is fenced
    _set_in_sync(record, partition, plan, around)
    if around.levels.elr:
        _set_last_known_leader(record, partition)
    _set_assignment(record, partition, plan, around, target)
    _set_recovery(record, partition, plan, target)
    if record == PartitionChangeRecord(partition_id=number, topic_id=topic_id):
        return None
    return VersionedRecord(record, around.levels.partition_version)


def _complete_reassignment(plan: _Plan) -> None:
    """Drop the replicas that go as soon as those that come are in sync, and the ISR does not suffer by it."""
    if not plan.adding and not plan.removing:
        return
    isr = tuple(r for r in plan.isr if r not in plan.removing)
    replicas = tuple(r for r in plan.replicas if r not in plan.removing)
    if not isr or not replicas or not set(plan.adding) <= set(isr):
        return
    if len(plan.adding) < len(plan.removing) and not set(replicas) <= set(isr):
        return  # fewer replicas than before: wait for all, or the ISR would shrink for nothing
    plan.isr, plan.replicas, plan.adding, plan.removing = isr, replicas, (), ()


def _eligible(partition: PartitionRegistration, plan: _Plan, min_isr: int, unclean: Collection[int]) -> tuple[int, ...]:
    if len(plan.isr) >= min_isr:
        return ()
    candidates = sorted({*partition.elr, *partition.isr})
    return tuple(r for r in candidates if r not in plan.isr and r not in unclean)


def _elect(partition: PartitionRegistration, plan: _Plan, around: Surroundings, election: Election) -> None:
    leader, unclean = _leader(partition, plan, around, election)
    if leader == partition.leader:
        return
    if leader in plan.elr:
        plan.isr = (leader,)
        plan.elr = tuple(r for r in plan.elr if r != leader)
    plan.leader = leader
    plan.unclean_election = unclean


def _leader(
    partition: PartitionRegistration, plan: _Plan, around: Surroundings, election: Election
) -> tuple[int, bool]:
    def valid(replica: int) -> bool:
        in_sync = replica in plan.isr or (not plan.isr and replica in plan.elr)
        return in_sync and around.acceptable(replica)

    candidates = [partition.leader, *plan.replicas]
    if election is Election.PREFERRED and plan.replicas:
        candidates.insert(0, plan.replicas[0])
    for replica in candidates:
        if valid(replica):
            return replica, False
    last = partition.last_known_elr
    if around.levels.elr and not plan.elr and not plan.isr and len(last) == 1 and around.acceptable(last[0]):
        return last[0], True
    if election is Election.UNCLEAN:
        for replica in plan.replicas:
            if around.acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _set_in_sync(
    record: PartitionChangeRecord, partition: PartitionRegistration, plan: _Plan, around: Surroundings
) -> None:
    if plan.unclean_election:
        record.isr = [plan.leader]
    elr = () if plan.unclean_election or not around.levels.elr else plan.elr
    if elr != partition.elr:
        record.eligible_leader_replicas = list(elr)
    # Without ELR an ISR never becomes empty: its last members are those who may lead when they come back.
    if record.isr is None and plan.isr != partition.isr and (plan.isr or around.levels.elr):
        record.isr = list(plan.isr)
    shrunk = record.isr is not None and not set(partition.isr) <= set(record.isr)
    if shrunk and around.levels.bumps_epoch_on_isr_shrink and record.leader == NO_LEADER_CHANGE:
        record.leader = partition.leader


def _set_last_known_leader(record: PartitionChangeRecord, partition: PartitionRegistration) -> None:
    if record.leader == NO_LEADER and not partition.last_known_elr:
        record.last_known_elr = [partition.leader]
    elif record.leader >= 0 and partition.last_known_elr:
        record.last_known_elr = []


def _set_assignment(
    record: PartitionChangeRecord,
    partition: PartitionRegistration,
    plan: _Plan,
    around: Surroundings,
    target: Target,
) -> None:
    if plan.replicas and around.levels.directories:
        placed = {**dict(zip(partition.replicas, partition.directories, strict=True)), **target.directories}
        directories = tuple(placed[r] if r in placed else around.directory_of(r) for r in plan.replicas)
        if directories != partition.directories:
            record.directories = list(directories)
    if plan.replicas and plan.replicas != partition.replicas:
        record.replicas = list(plan.replicas)
    if plan.removing != partition.removing_replicas:
        record.removing_replicas = list(plan.removing)
    if plan.adding != partition.adding_replicas:
        record.adding_replicas = list(plan.adding)


def _set_recovery(record: PartitionChangeRecord, partition: PartitionRegistration, plan: _Plan, target: Target) -> None:
    if plan.unclean_election and partition.leader_recovery_state != RECOVERING:
        record.leader_recovery_state = RECOVERING
    if target.recovery_state is not None and target.recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = target.recovery_state
