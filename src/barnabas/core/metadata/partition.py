"""One partition as the controller knows it, and how a record changes it.

A partition epoch grows with every change, a leader epoch with every change of leader (and with some others, where the
record names the leader again). ELR: eligible leader replicas, which may lead though not in the ISR (KIP-966).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.core.metadata.directories import MIGRATING
from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord
from barnabas.model.uuid import Uuid
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery state after an unclean election, until the leader says that it has recovered (KIP-704)."""
NO_RECOVERY_CHANGE: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """A partition as the controller knows it. directories: where each of `replicas` is, in the same order."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def preferred_leader(self) -> int:
        """The replica that leads when all is well."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, replica: int) -> Uuid:
        """Give the directory id of a replica; ValueError when it is none of this partition."""
        return self.directories[self.replicas.index(replica)]

    def changed(self, r: PartitionChangeRecord) -> PartitionRegistration:
        """Give the partition after the change."""
        replicas = self.replicas if r.replicas is None else tuple(r.replicas)
        leads_anew = r.leader != NO_LEADER_CHANGE
        return PartitionRegistration(
            replicas=replicas,
            directories=self._directories_after(r, replicas),
            isr=_or(r.isr, self.isr),
            adding_replicas=_or(r.adding_replicas, self.adding_replicas),
            removing_replicas=_or(r.removing_replicas, self.removing_replicas),
            elr=_or(r.eligible_leader_replicas, self.elr),
            last_known_elr=_or(r.last_known_elr, self.last_known_elr),
            leader=r.leader if leads_anew else self.leader,
            leader_recovery_state=(
                self.leader_recovery_state if r.leader_recovery_state == NO_RECOVERY_CHANGE else r.leader_recovery_state
            ),
            leader_epoch=self.leader_epoch + leads_anew,
            partition_epoch=self.partition_epoch + 1,
        )

    def _directories_after(self, r: PartitionChangeRecord, replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
        if r.directories is None and replicas is self.replicas:
            return self.directories
        return _directories(self.directories if r.directories is None else r.directories, replicas)

    @classmethod
    def of(cls, r: PartitionRecord) -> PartitionRegistration:
        """Give the partition that a record registers."""
        return cls(
            replicas=tuple(r.replicas),
            directories=_directories(r.directories, tuple(r.replicas)),
            isr=tuple(r.isr),
            adding_replicas=tuple(r.adding_replicas),
            removing_replicas=tuple(r.removing_replicas),
            elr=tuple(r.eligible_leader_replicas or ()),
            last_known_elr=tuple(r.last_known_elr or ()),
            leader=r.leader,
            leader_recovery_state=r.leader_recovery_state,
            leader_epoch=r.leader_epoch,
            partition_epoch=r.partition_epoch,
        )

    def record(self, topic_id: Uuid, partition: int, levels: Levels) -> VersionedRecord:
        """Give the record that registers the partition as it is; what `levels` does not know is left out."""
        r = PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if levels.elr and self.elr:
            r.eligible_leader_replicas = list(self.elr)
        if levels.elr and self.last_known_elr:
            r.last_known_elr = list(self.last_known_elr)
        if levels.directories:
            r.directories = list(self.directories)
        return VersionedRecord(r, levels.partition_version)


def _or(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _directories(given: list[Uuid] | tuple[Uuid, ...] | None, replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
    if not given or all(directory == MIGRATING for directory in given):
        return (MIGRATING,) * len(replicas)
    if len(given) != len(replicas):
        raise ReplayError(f"a partition record names {len(given)} directories for {len(replicas)} replicas")
    return tuple(given)
