"""What follows from a log directory that failed: its broker is asked for all its replicas, and names those it lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.elections import Elector
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition_changes import Target
from barnabas.core.metadata.partition_index import PlaceId
from barnabas.core.replicated import Decision
from barnabas.core.zookeeper.control_requests import ControllerIdentity, ControlRequest, requests
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


def replicas_asked(image: MetadataImage, broker: int, controller: ControllerIdentity) -> list[ControlRequest]:
    """Give the LeaderAndIsr that has a broker answer for each of its replicas; nothing when it does not live."""
    others = image.cluster.brokers.delete(broker) if broker in image.cluster.brokers else image.cluster.brokers
    without = replace(image, cluster=replace(image.cluster, brokers=others))
    told = requests(MetadataDelta(without, image, brokers=frozenset({broker})), controller).get(broker, [])
    return [request for request in told if isinstance(request, LeaderAndIsrRequest)]


def lost_replicas(image: MetadataImage, answer: LeaderAndIsrResponse) -> list[PlaceId]:
    """Give the partitions whose replica the broker that answers cannot reach on its disks."""
    return [
        (topic.topic_id, one.partition_index)
        for topic in answer.topics
        for one in topic.partition_errors
        if one.error_code == ErrorCode.KAFKA_STORAGE_ERROR and topic.topic_id in image.topics.by_id
    ]


def without_replicas(image: MetadataImage, schema: ConfigSchema, broker: int, lost: Iterable[PlaceId]) -> Decision[int]:
    """Take a broker out of ISR and leadership of partitions; the answer: of how many."""
    elector = Elector(image, schema, lambda b: b != broker and image.cluster.active(b))
    records = []
    for place in elector.places(lost):
        topic, _, partition = place
        isr = tuple(b for b in partition.isr if b != broker)
        record = elector.change(place, Target(isr=isr, election=elector.election(topic.name)))
        records += [] if record is None else [record]
    return Decision(tuple(records), len(records), atomic=False)
