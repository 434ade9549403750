"""What the controller decides in ZooKeeper mode when brokers come and go, and when it takes the role over.

Who has a znode below `/brokers/ids` is alive; nothing is fenced. A broker whose znode was made anew has restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.elections import Elector, with_broker, without_broker
from barnabas.core.metadata.image import MetadataImage, replay
from barnabas.core.metadata.partition_changes import Target
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord


class _Changes:
    """Decisions that follow each other: each sees what those before it have changed."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.records: list[VersionedRecord] = []

    def add(self, records: Iterable[VersionedRecord]) -> None:
        found = list(records)
        self.records += found
        self.image = replay(self.image, found)


def brokers_seen(
    image: MetadataImage, schema: ConfigSchema, registrations: Sequence[VersionedRecord]
) -> Decision[tuple[frozenset[int], frozenset[int]]]:
    """Take the brokers that are registered now for those that there are; the answer: who came, and who went.

    registrations: a RegisterBrokerRecord each, as `znodes.brokers.record` gives them. One that has restarted is in
    both answers.
    """
    changes = _Changes(image)
    there = {versioned.record.broker_id: versioned for versioned in registrations}
    known = image.cluster.brokers
    gone = frozenset(i for i in known if i not in there or there[i].record.broker_epoch != known[i].epoch)
    came = frozenset(i for i in there if i not in known or i in gone)
    for broker in sorted(gone):
        changes.add(without_broker(changes.image, schema, broker))
        epoch = known[broker].epoch
        changes.add([VersionedRecord(UnregisterBrokerRecord(broker_id=broker, broker_epoch=epoch), 0)])
    for broker in sorted(came):
        changes.add([there[broker]])
        changes.add(with_broker(changes.image, schema, broker))
    return Decision(tuple(changes.records), (came, gone), atomic=False)


def take_over(image: MetadataImage, schema: ConfigSchema) -> Decision[int]:
    """Do what was left undone while nobody was the controller; the answer: how many partitions change.

    image: as it was read. Partitions whose leader or in-sync replicas have no broker any more get others, and those
    that were made without a state get their first one.
    """
    changes = _Changes(image)
    members = {
        b for topic in image.topics.by_id.values() for p in topic.partitions.values() for b in (p.leader, *p.isr)
    }
    for broker in sorted(b for b in members if b >= 0 and b not in image.cluster.brokers):
        changes.add(without_broker(changes.image, schema, broker))
    changes.add(_first_states(changes.image, schema))
    return Decision(tuple(changes.records), len(changes.records), atomic=False)


def _first_states(image: MetadataImage, schema: ConfigSchema) -> list[VersionedRecord]:
    elector = Elector(image, schema)
    records = []
    for place in elector.places(image.topics.index.leaderless()):
        partition = place[2]
        live = tuple(replica for replica in partition.replicas if image.cluster.active(replica))
        isr = live if not partition.isr else None
        record = elector.change(place, Target(isr=isr, election=elector.election(place[0].name)))
        if record is not None:
            records.append(record)
    return records
