"""Which partitions change when brokers come, go and ask: leaders, ISRs, directories, over the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from barnabas.core.metadata.config_changes import MIN_INSYNC_REPLICAS, ConfigSchema
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.directories import online
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import check_batch
from barnabas.core.metadata.partition import NO_LEADER, PartitionRegistration
from barnabas.core.metadata.partition_changes import Election, Surroundings, Target, change_partition
from barnabas.core.metadata.partition_index import PlaceId
from barnabas.core.metadata.placement import default_directory
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

UNCLEAN_ENABLED = "unclean.leader.election.enable"
MAX_ELECTIONS_AT_ONCE = 1_000
"""How many leaders one periodic pass may move."""
Place = tuple[TopicImage, int, PartitionRegistration]


class ElectionType(IntEnum):
    """What ElectLeaders asks for; the numbers are the wire's."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Elector:
    """Changes partitions of one image. alive: who may be leader, apart from directories; None: active brokers."""

    image: MetadataImage
    schema: ConfigSchema
    alive: Callable[[int], bool] | None = None
    _values: dict[tuple[str, str], str] = field(default_factory=dict, repr=False, compare=False)

    def places(self, ids: Iterable[PlaceId]) -> list[Place]:
        """Give the partitions with their topics and numbers, in order of names."""
        by_id = self.image.topics.by_id
        found = [(by_id[topic_id], number) for topic_id, number in ids]
        found.sort(key=lambda place: (place[0].name, place[1]))
        return [(topic, number, topic.partitions[number]) for topic, number in found]

    def topic_value(self, topic: str, key: str) -> str:
        """Give a topic's key as it works out."""
        value = self._values.get((topic, key))
        if value is None:
            overrides = self.image.configs.get(ConfigResource(ConfigResourceType.TOPIC, topic))
            value = self._values[topic, key] = self.schema.topic_value(self.image.configs, overrides, key)
        return value

    def unclean_enabled(self, topic: str) -> bool:
        """Say whether a replica that is not in sync may lead the topic's partitions."""
        return self.topic_value(topic, UNCLEAN_ENABLED) == "true"

    def election(self, topic: str) -> Election:
        """Give the kind of election that the topic's configuration allows by itself."""
        return Election.UNCLEAN if self.unclean_enabled(topic) else Election.ONLINE

    def change(self, place: Place, target: Target) -> VersionedRecord | None:
        """Give the record that brings the partition to the target; None when nothing changes."""
        topic, number, partition = place
        image = self.image

        def acceptable(broker: int) -> bool:
            alive = image.cluster.active if self.alive is None else self.alive
            if not alive(broker) or broker not in partition.replicas or broker not in image.cluster.brokers:
                return False
            return online(partition.directory_of(broker), image.cluster.brokers[broker].directories)

        around = Surroundings(
            levels=image.levels,
            acceptable=acceptable,
            directory_of=lambda broker: default_directory(image.cluster, image.levels, broker),
            min_isr=self._min_isr(topic),
        )
        return change_partition(partition, topic.id, number, around, target)

    def _min_isr(self, topic: TopicImage) -> int:
        if not self.image.levels.elr:
            return 1  # only eligible leader replicas ask for it
        factor = len(topic.partitions[min(topic.partitions)].replicas)
        return min(int(self.topic_value(topic.name, MIN_INSYNC_REPLICAS)), factor)


def _removed(
    image: MetadataImage, schema: ConfigSchema, broker: int, ids: Iterable[PlaceId], *, unclean: bool = False
) -> list[VersionedRecord]:
    """Take a broker out of ISR and leadership of these partitions; unclean: out of the ELR as well."""
    elector = Elector(image, schema, lambda b: b != broker and image.cluster.active(b))
    records = []
    for place in elector.places(ids):
        topic, _, partition = place
        target = Target(
            isr=tuple(b for b in partition.isr if b != broker),
            election=elector.election(topic.name),
            unclean=(broker,) if unclean else (),
        )
        record = elector.change(place, target)
        if record is not None:
            records.append(record)
    return records


def without_broker(image: MetadataImage, schema: ConfigSchema, broker: int) -> list[VersionedRecord]:
    """Give the changes that take a broker out of every ISR and leadership."""
    return _removed(image, schema, broker, image.topics.index.with_isr_member(broker))


def without_broker_and_elr(image: MetadataImage, schema: ConfigSchema, broker: int) -> list[VersionedRecord]:
    """Give the changes of a broker that leaves for good: what leads through its ELR is looked at again, too."""
    return _removed(image, schema, broker, _isr_and_elr(image, broker))


def after_unclean_shutdown(image: MetadataImage, schema: ConfigSchema, broker: int) -> list[VersionedRecord]:
    """Give the changes for a broker that may have lost the end of its logs: out of every ISR and ELR."""
    return _removed(image, schema, broker, _isr_and_elr(image, broker), unclean=True)


def _isr_and_elr(image: MetadataImage, broker: int) -> set[PlaceId]:
    index = image.topics.index
    return {*index.with_isr_member(broker), *index.with_elr_member(broker)}


def without_directory(
    image: MetadataImage, schema: ConfigSchema, broker: int, directory: Uuid
) -> list[VersionedRecord]:
    """Give the changes for replicas of the broker in a directory that is lost."""
    return _removed(image, schema, broker, image.topics.index.with_directory(directory))


def with_broker(image: MetadataImage, schema: ConfigSchema, broker: int) -> list[VersionedRecord]:
    """Give the changes for partitions without a leader, now that this broker may lead again."""
    elector = Elector(image, schema, lambda b: b == broker or image.cluster.active(b))
    records = []
    for place in elector.places(image.topics.index.leaderless()):
        record = elector.change(place, Target(election=elector.election(place[0].name)))
        if record is not None:
            records.append(record)
    return records


def leads_any(image: MetadataImage, broker: int) -> bool:
    """Say whether the broker leads a partition."""
    return image.topics.index.leads_any(broker)


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, schema: ConfigSchema
) -> Decision[ElectLeadersResponse]:
    """Elect leaders as asked (KIP-460); without a list, for every partition that needs it."""
    if request.election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"election type {request.election_type} is unknown: want 0, preferred, or 1, unclean",
        )
    election_type = ElectionType(request.election_type)
    elector = Elector(image, schema)
    everything = request.topic_partitions is None
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topic_partitions is None:
        wanted = ((name, sorted(topic.partitions)) for name, topic in sorted(image.topics.by_name.items()))
    else:
        wanted = ((t.topic, t.partitions) for t in request.topic_partitions)
    records: list[VersionedRecord] = []
    response = ElectLeadersResponse()
    for topic, numbers in wanted:
        results = []
        for number in numbers:
            error = _elected(elector, topic, number, election_type, records)
            if not (everything and error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED):
                results.append(_election_result(number, error))
        response.replica_election_results.append(ReplicaElectionResult(topic=topic, partition_result=results))
    return Decision(check_batch(records), response, atomic=False)


def _election_result(number: int, error: ApiError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=number, error_message=None)
    return PartitionResult(partition_id=number, error_code=error.code, error_message=error.message)


def _elected(
    elector: Elector, topic: str, number: int, election_type: ElectionType, records: list[VersionedRecord]
) -> ApiError | None:
    image = elector.image.topics.by_name.get(topic)
    partition = None if image is None else image.partitions.get(number)
    if image is None or partition is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{number}")
    if election_type is ElectionType.PREFERRED:
        needless = partition.leader == partition.preferred_leader
    else:
        needless = partition.leader != NO_LEADER
    if needless:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    election = Election.PREFERRED if election_type is ElectionType.PREFERRED else Election.UNCLEAN
    record = elector.change((image, number, partition), Target(election=election))
    if record is None:
        if election_type is ElectionType.PREFERRED:
            return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    records.append(record)
    return None


def balance_leaders(image: MetadataImage, schema: ConfigSchema) -> Decision[bool]:
    """Give leadership back to preferred replicas where they are in sync; the answer: whether there may be more."""
    elector = Elector(image, schema)
    records: list[VersionedRecord] = []
    for place in elector.places(image.topics.index.imbalanced):
        if len(records) >= MAX_ELECTIONS_AT_ONCE:
            break
        record = elector.change(place, Target(election=Election.PREFERRED))
        if record is not None:
            records.append(record)
    return Decision(tuple(records), len(records) >= MAX_ELECTIONS_AT_ONCE, atomic=False)


def elect_unclean(image: MetadataImage, schema: ConfigSchema) -> Decision[bool]:
    """Elect uncleanly where there is no leader and the topic allows it; the answer: whether there may be more."""
    elector = Elector(image, schema)
    records: list[VersionedRecord] = []
    for place in elector.places(image.topics.index.leaderless()):
        if len(records) >= MAX_ELECTIONS_AT_ONCE:
            break
        if elector.unclean_enabled(place[0].name):
            _elected(elector, place[0].name, place[1], ElectionType.UNCLEAN, records)
    return Decision(tuple(records), len(records) >= MAX_ELECTIONS_AT_ONCE, atomic=False)
