"""Members that speak the classic protocol as Kafka's consumers do, beside those of the consumer protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.core.groups.classic import ClassicGroup
from barnabas.core.groups.embedded import read_assignment, read_subscription, write_assignment
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import encode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.core.groups.consumer.driving import Cluster, ConsumerDriver
from tests.core.groups.driving import Parked

E = ErrorCode
Place = tuple[str, int]
LOST = (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID)


def subscription(
    topics: list[str], owned: Mapping[str, list[int]] | None = None, version: int = 3, rack: str | None = None
) -> bytes:
    said = ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[TopicPartition(topic=t, partitions=p) for t, p in (owned or {}).items()],
        rack_id=rack,
    )
    return version.to_bytes(2, "big") + encode(said, version)


def grouped(places: set[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return topics


@dataclass(eq=False)
class Classic:
    """A consumer of the classic protocol. held: what it has; owed: whether it has to join (again).

    A cooperative one keeps what it has over a rebalance until it is told otherwise (KIP-429).
    """

    group: str = "g"
    instance: str | None = None
    topics: list[str] = field(default_factory=lambda: ["t"])
    cooperative: bool = False
    session_ms: int = 10_000
    rebalance_ms: int = 30_000
    member_id: str = ""
    generation: int = -1
    held: set[Place] = field(default_factory=set)
    owed: bool = True
    joining: Parked | None = None
    syncing: Parked | None = None
    dealt: dict[str, int] | None = None
    """As a leader, how many partitions it dealt out of each topic: when there are more, it asks for a rebalance."""

    @property
    def protocols(self) -> list[tuple[str, bytes]]:
        if self.cooperative:
            return [("cooperative-sticky", subscription(self.topics, grouped(self.held)))]
        return [("range", subscription(self.topics)), ("roundrobin", subscription(self.topics))]

    @property
    def settled(self) -> bool:
        return self.joining is None and self.syncing is None and not self.owed

    def lose(self) -> None:
        """Begin anew: the group does not know it any more."""
        self.rejoin()
        self.held = set()
        self.member_id, self.generation = "", -1

    def rejoin(self) -> None:
        self.joining = self.syncing = None
        self.owed = True
        if not self.cooperative:
            self.held = set()


class MigrationDriver(ConsumerDriver):
    """The driver of a shard that knows the topics, with clients of both protocols."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shard = self.new_shard()
        self.carry(self.shard.loaded(self.now))

    def new_shard(self) -> GroupShard:
        return GroupShard(self.config, self.new_uuid, topics=self.cluster.world)

    def classic_group(self, group_id: str = "g") -> ClassicGroup:
        return self.shard.image.groups[group_id]

    def is_consumer_group(self, group_id: str = "g") -> bool:
        return group_id in self.shard.image.consumers

    def move(self, client: Classic) -> None:
        """Let a classic consumer do the one thing that it would do next."""
        try:
            if client.joining is not None:
                self.joined(client, client.joining.response)
            elif client.syncing is not None:
                self.synced(client, client.syncing.response)
            elif client.owed:
                self.join_as(client)
            else:
                self.beat_as(client)
        except ApiError as e:
            self.troubled(client, e.code)

    def troubled(self, client: Classic, code: ErrorCode) -> None:
        if code in LOST:
            client.lose()
        elif code is E.REBALANCE_IN_PROGRESS:
            client.rejoin()
        else:
            assert code in (E.NOT_COORDINATOR, E.GROUP_MAX_SIZE_REACHED, E.COORDINATOR_NOT_AVAILABLE), code
            if client.syncing is not None:
                client.rejoin()
            client.joining = None

    def join_as(self, client: Classic) -> None:
        client.owed = False
        client.joining = Parked()  # so that a refusal finds it
        try:
            client.joining = self.join(
                client.member_id,
                group=client.group,
                instance=client.instance,
                protocols=client.protocols,
                protocol_type="consumer",
                session_ms=client.session_ms,
                rebalance_ms=client.rebalance_ms,
            )
        except ApiError:
            client.owed = True
            raise

    def joined(self, client: Classic, response: JoinGroupResponse | None) -> None:
        if response is None:
            return
        client.joining = None
        if response.error_code == E.MEMBER_ID_REQUIRED:
            client.member_id, client.owed = response.member_id, True
        elif response.error_code != E.NONE:
            client.owed = True
            self.troubled(client, ErrorCode(response.error_code))
        else:
            client.member_id, client.generation = response.member_id, response.generation_id
            leads = response.leader == response.member_id and not response.skip_assignment
            client.dealt = self.cluster.counts() if leads else None
            client.syncing = Parked()
            client.syncing = self.sync(
                response,
                assigned(response, self.cluster) if leads else None,
                group=client.group,
                instance=client.instance,
                protocol_type=response.protocol_type,
                protocol_name=response.protocol_name,
            )

    def synced(self, client: Classic, response: Any) -> None:
        if response is None:
            return
        client.syncing = None
        if response.error_code != E.NONE:
            client.owed = True
            self.troubled(client, ErrorCode(response.error_code))
            return
        now = {(t, p) for t, ps in read_assignment(response.assignment).partitions.items() for p in ps}
        # Having given something up, a cooperative one asks for a rebalance, so that others can have it.
        client.owed = client.cooperative and not client.held <= now
        client.held = now

    def beat_as(self, client: Classic) -> None:
        if client.dealt not in (None, self.cluster.counts()):
            client.dealt = None
            client.rejoin()
            return
        answer = self.heartbeat(client.member_id, client.generation, group=client.group, instance=client.instance)
        if answer.error_code != E.NONE:
            raise ApiError(ErrorCode(answer.error_code))

    def away_as(self, client: Classic) -> Any:
        answer = self.leave(
            MemberIdentity(member_id=client.member_id, group_instance_id=client.instance), group=client.group
        )
        client.lose()
        return answer

    def settle_classic(self, *clients: Classic, rounds: int = 12) -> None:
        for _ in range(rounds):
            self.advance(1_000)
            for client in clients:
                self.move(client)

    def places(self, partitions: set[tuple[Any, int]]) -> set[Place]:
        world = self.cluster.world()
        return {(world.by_id[topic_id].name, p) for topic_id, p in partitions if topic_id in world.by_id}


def assigned(joined: JoinGroupResponse, cluster: Cluster) -> dict[str, bytes]:
    """Do a leader's work: deal each topic out, but for what a cooperative member has to give up first."""
    said = {m.member_id: read_subscription(m.metadata) for m in joined.members}
    dealt: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in said}
    owners = {(t, p): who for who, s in said.items() for t, ps in s.owned.items() for p in ps}
    for name in sorted(cluster.topics):
        readers = sorted(who for who, s in said.items() if name in s.topics)
        for partition in range(len(cluster.topics[name].racks) if readers else 0):
            who = readers[partition % len(readers)]
            if owners.get((name, partition), who) == who:
                dealt[who].setdefault(name, set()).add(partition)
    return {
        who: write_assignment({t: frozenset(ps) for t, ps in topics.items()}, said[who].version)
        for who, topics in dealt.items()
    }
