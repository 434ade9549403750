"""The `uniform` assignor for members that want different topics (KIP-848).

Members keep what they have; free partitions go to the least loaded subscribers, the topics with most
partitions a subscriber first; then partitions move from most to least loaded subscribers, topic by topic,
until none needs to. Whoever shares a topic differs by one partition at most then, except where
subscriptions overlap in long chains: the rounds have an end.
"""

from __future__ import annotations

from typing import Final

from barnabas.core.groups.assignors.balancer import Balancer
from barnabas.core.groups.assignors.spec import Assignment, GroupSpec, Topics, existing_count, frozen, kept
from barnabas.model.uuid import Uuid

_ROUNDS: Final = 16
"""Kafka's limit; each round about halves what imbalance there is."""
_NOBODY: Final = -1


def assign_mixed(spec: GroupSpec, topics: Topics) -> Assignment:
    """Give the balanced assignment; PartitionAssignorError when a topic that a member wants is not there."""
    plan = _Plan(spec, topics)
    plan.give_free_partitions()
    plan.balance()
    return plan.assignment()


class _Plan:
    """Who owns each partition, members as indices into their sorted ids, and how many each member has."""

    __slots__ = ("_member_ids", "_owners", "_sizes", "_subscribers", "_topic_ids")

    def __init__(self, spec: GroupSpec, topics: Topics) -> None:
        self._member_ids = sorted(spec.members)
        self._subscribers: dict[Uuid, list[int]] = {}
        for index, member_id in enumerate(self._member_ids):
            for topic_id in spec.members[member_id].subscribed:
                self._subscribers.setdefault(topic_id, []).append(index)
        counts = {topic_id: existing_count(topics, topic_id) for topic_id in self._subscribers}

        def precedence(topic_id: Uuid) -> tuple[float, int, Uuid]:
            subscribers = len(self._subscribers[topic_id])
            return -counts[topic_id] / subscribers, subscribers, topic_id

        self._topic_ids = sorted(counts, key=precedence)
        self._owners = {topic_id: [_NOBODY] * counts[topic_id] for topic_id in self._topic_ids}
        self._sizes = [0] * len(self._member_ids)
        index_of = {member_id: index for index, member_id in enumerate(self._member_ids)}
        keeping, _ = kept(spec, counts)
        for member_id, mine in keeping.items():
            for topic_id, partitions in mine.items():
                for partition in partitions:
                    self._give(topic_id, partition, index_of[member_id])

    def give_free_partitions(self) -> None:
        """Give every partition that nobody has to the subscriber with least."""
        for topic_id in self._topic_ids:
            free = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner == _NOBODY]
            if free:
                balancer = Balancer(self._sizes, self._subscribers[topic_id])
                for partition in free:
                    self._give(topic_id, partition, balancer.next_to_get())

    def balance(self) -> None:
        """Move partitions until a whole round moved none."""
        shared = [topic_id for topic_id in self._topic_ids if len(self._subscribers[topic_id]) > 1]
        last = None
        for _ in range(_ROUNDS):
            for topic_id in shared:
                if topic_id == last:
                    return
                if self._balance_topic(topic_id) or last is None:
                    last = topic_id

    def assignment(self) -> Assignment:
        """Give what has become of it."""
        sets: list[dict[Uuid, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                sets[owner].setdefault(topic_id, set()).add(partition)
        return frozen(dict(zip(self._member_ids, sets, strict=True)))

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Move the topic's partitions from the most to the least loaded subscribers; say whether any moved."""
        subscribers = self._subscribers[topic_id]
        sizes = [self._sizes[index] for index in subscribers]
        if max(sizes) - min(sizes) <= 1:
            return False
        balancer = Balancer(self._sizes, subscribers)
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while (giver := balancer.next_to_give()) is not None:
            if not owned.get(giver):
                balancer.exclude()
                continue
            partition = owned[giver].pop()
            getter = balancer.next_to_get()
            if balancer.balanced:
                break
            self._give(topic_id, partition, getter)
            moved = True
        return moved

    def _give(self, topic_id: Uuid, partition: int, index: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != _NOBODY:
            self._sizes[owners[partition]] -= 1
        owners[partition] = index
        self._sizes[index] += 1
