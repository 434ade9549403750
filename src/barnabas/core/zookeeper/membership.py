"""What the controller decides in ZooKeeper mode when brokers come and go, and when it takes the role over.

Who has a znode below `/brokers/ids` is alive; nothing is fenced. A broker whose znode was made anew has restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.core.metadata.cluster import ENTER_CONTROLLED_SHUTDOWN
from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.elections import Elector, with_broker, without_broker
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition import NO_LEADER
from barnabas.core.metadata.partition_changes import Target
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.control_records import ANY_BROKER_EPOCH
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
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
        changes.add(_first_states(changes.image, schema))
    return Decision(tuple(changes.records), (came, gone), atomic=False)


def controlled_shutdown(
    image: MetadataImage, schema: ConfigSchema, request: ControlledShutdownRequest
) -> Decision[ControlledShutdownResponse]:
    """Move leaderships away from a broker that is about to stop, and take it out of ISRs that have others.

    The answer names what it still leads though others have replicas, which are not in sync; of a sole replica nobody
    could take the lead ever. ApiError BROKER_ID_NOT_REGISTERED when it is not there, STALE_BROKER_EPOCH when it has
    restarted since it asked.
    """
    broker = image.cluster.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    if request.broker_epoch not in (ANY_BROKER_EPOCH, broker.epoch):
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker.id} is registered with epoch {broker.epoch}")
    changes = _Changes(image)
    if not broker.in_controlled_shutdown:
        begun = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN
        )
        changes.add([VersionedRecord(begun, 1)])
    changes.add(
        record for record in without_broker(changes.image, schema, broker.id) if record.record.leader != NO_LEADER
    )
    topics = changes.image.topics
    left = [
        RemainingPartition(topic_name=topics.by_id[topic_id].name, partition_index=number)
        for topic_id, number in topics.index.led_by.get(broker.id, ())
        if len(topics.by_id[topic_id].partitions[number].replicas) > 1
    ]
    left.sort(key=lambda one: (one.topic_name, one.partition_index))
    return Decision(tuple(changes.records), ControlledShutdownResponse(remaining_partitions=left), atomic=False)


def take_over(image: MetadataImage, schema: ConfigSchema) -> Decision[int]:
    """Do what was left undone while nobody was the controller; the answer: how many partitions change.

    image: as it was read. Partitions whose leader or in-sync replicas have no broker any more get others, and those
    that were made without a state get their first one. Reassignments end whose new replicas are in sync.
    """
    changes = _Changes(image)
    members = {
        b for topic in image.topics.by_id.values() for p in topic.partitions.values() for b in (p.leader, *p.isr)
    }
    for broker in sorted(b for b in members if b >= 0 and b not in image.cluster.brokers):
        changes.add(without_broker(changes.image, schema, broker))
    changes.add(_first_states(changes.image, schema))
    changes.add(_completed(changes.image, schema))
    return Decision(tuple(changes.records), len(changes.records), atomic=False)


def first_states(image: MetadataImage, schema: ConfigSchema) -> Decision[int]:
    """Elect the first leaders of partitions that others have made; the answer: of how many."""
    records = tuple(_first_states(image, schema))
    return Decision(records, len(records), atomic=False)


def complete_reassignments(image: MetadataImage, schema: ConfigSchema) -> Decision[int]:
    """End the reassignments whose new replicas are in sync, by what brokers have written; the answer: how many."""
    records = tuple(_completed(image, schema))
    return Decision(records, len(records), atomic=False)


def finish_deletions(image: MetadataImage, names: Iterable[str]) -> Decision[frozenset[str]]:
    """Remove the topics that are marked to go; the answer: the names of those that were still there."""
    found = {name: image.topics.by_name[name].id for name in names if name in image.topics.by_name}
    records = tuple(VersionedRecord(RemoveTopicRecord(topic_id=found[name]), 0) for name in sorted(found))
    return Decision(records, frozenset(found), atomic=False)


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


def _completed(image: MetadataImage, schema: ConfigSchema) -> list[VersionedRecord]:
    elector = Elector(image, schema)
    found = (
        elector.change(place, Target(election=elector.election(place[0].name)))
        for place in elector.places(image.topics.index.reassigning)
    )
    return [record for record in found if record is not None]
