"""Members that join, dawdle, crash, leave and lose answers, on virtual time with one seed; invariants at every step.

- No two members of a group have, or hold, one partition; who holds one, has it.
- Epochs of a group only grow; nobody is ahead of the target, the target never ahead of the group.
- The counts beside the members are what counting gives; the image is what replaying the log gives.
- When nothing more goes wrong, the group is soon stable and every partition of every topic that is read has one member.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Step
from barnabas.core.groups.config import ConsumerGroupConfig, GroupConfig
from barnabas.core.groups.consumer.group import FREE, ConsumerGroup, ConsumerGroupState
from barnabas.core.groups.consumer.member import ConsumerMember, MemberState
from barnabas.core.groups.consumer.reconciling import Reconciliation
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.errors import ApiError, ErrorCode
from tests.core.groups.consumer.driving import Cluster, Consumer, ConsumerDriver, Partition, listed
from tests.core.groups.lives import is_repeatable, mistakes_found

E = ErrorCode
GROUPS = ("g", "h")
SUBSCRIPTIONS: list[tuple[list[str] | None, str | None]] = [
    (["t0", "t1"], None),
    (["t0", "t1"], None),
    (["t1", "t2", "t9"], None),
    ([], "t[01]"),
    (["t2"], "t[12]"),
    (None, ".*"),
]


class Life(ConsumerDriver):
    """Two groups of up to five consumers each, over topics that come, grow and go."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.born = 0
        self.settled = 0
        self.refusing = 0.02
        self.losing = 0.05
        self.telling = 0.2
        self.highest: dict[str, int] = {}
        super().__init__(GroupConfig(consumer=ConsumerGroupConfig(max_size=8)), cluster=Cluster())
        for name in ("t0", "t1", "t2"):
            self.cluster.create(name, self.rng.randint(1, 5))
        self.consumers = [self.fresh(GROUPS[n % 2], f"i{n}" if n % 5 < 2 else None) for n in range(10)]

    def fresh(self, group: str, instance: str | None) -> Consumer:
        self.born += 1
        names, regex = self.rng.choice(SUBSCRIPTIONS)
        assignor = self.rng.choice((None, "uniform", "range"))
        return Consumer(f"m{self.born}", group, instance, names, regex, assignor)

    def carry(self, step: Step[Any]) -> Any:
        if step.records and self.rng.random() < self.refusing:
            raise ApiError(E.NOT_COORDINATOR)
        return super().carry(step)

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            step = self.shard.tick(self.now)
            if step is not None and not (step.records and self.rng.random() < self.refusing):
                super().carry(step)
        self.now_ms = end

    def hand_over(self) -> None:
        """Another coordinator takes over with nothing but the log."""
        before = self.shard.image
        self.shard.unload(self.now)
        self.shard = GroupShard(self.config, self.new_uuid)
        for offset, (record, _) in enumerate(self.log):
            self.shard.replay(record, At(offset))
        assert self.shard.image == before
        super().carry(self.shard.loaded(self.now))

    # the clients

    def beat_once(self, consumer: Consumer) -> None:
        if self.rng.random() < self.losing:
            return  # the request is lost
        request = consumer.request(full=self.rng.random() < self.telling)
        # What it is about to take counts as held: the answer that takes it back may be the one that is lost.
        request.topic_partitions = listed(consumer.held | consumer.wanted)
        try:
            response = self.send(request)
        except ApiError as e:
            self.refused(consumer, e.code)
            return
        if self.rng.random() < self.losing:
            return  # the answer is lost
        consumer.epoch = response.member_epoch
        if response.assignment is not None:
            consumer.wanted = {(t.topic_id, p) for t in response.assignment.topic_partitions for p in t.partitions}

    def refused(self, consumer: Consumer, code: ErrorCode) -> None:
        if code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND, E.FENCED_INSTANCE_ID):
            assert consumer.epoch > 0
            consumer.fenced()
        else:
            assert code in (E.NOT_COORDINATOR, E.UNRELEASED_INSTANCE_ID, E.GROUP_MAX_SIZE_REACHED), code

    def again(self, consumer: Consumer) -> None:
        """Put a new process in the place of one that is gone."""
        self.consumers[self.consumers.index(consumer)] = self.fresh(consumer.group, consumer.instance)

    def go(self, consumer: Consumer) -> None:
        """Leave, for good or for a while, when it is there at all."""
        if consumer.epoch == 0:
            return
        try:
            self.away(consumer, self.rng.choice((-1, -2)) if consumer.instance else -1)
        except ApiError as e:
            self.refused(consumer, e.code)
        else:
            self.again(consumer)

    def event(self) -> None:
        choice, consumer = self.rng.random(), self.rng.choice(self.consumers)
        if choice < 0.6:
            self.beat_once(consumer)
        elif choice < 0.75:
            consumer.held = set(consumer.wanted)
        elif choice < 0.90:
            self.advance(self.rng.choice((1, 200, 1_000, 5_000)))
        elif choice < 0.91:
            self.advance(self.rng.choice((20_000, 50_000)))
        elif choice < 0.94:
            self.go(consumer)
        elif choice < 0.95:
            self.again(consumer)  # crashed
        elif choice < 0.97:
            names, regex = self.rng.choice(SUBSCRIPTIONS)
            consumer.names, consumer.regex = names or [], regex or ""
        elif choice < 0.98:
            self.hand_over()
        else:
            self.change_topics()
        self.check()

    def change_topics(self) -> None:
        topics = self.cluster.topics
        name = self.rng.choice(("t0", "t1", "t2", "t3", "other"))
        if name not in topics:
            self.cluster.create(name, self.rng.randint(1, 5))
        elif self.rng.random() < 0.7:
            self.cluster.grow(name, len(topics[name].racks) + 1)
        else:
            self.cluster.delete(name)

    # invariants

    def check(self) -> None:
        for group_id in GROUPS:
            if group_id not in self.shard.image.consumers:
                self.highest.pop(group_id, None)  # nobody was left, and it was cleaned up
        for group in self.shard.image.consumers.values():
            self.check_group(group)
        for consumer in self.consumers:
            its_group = self.shard.image.consumers.get(consumer.group)
            member = its_group.members.get(consumer.member_id) if its_group is not None else None
            if member is not None and consumer.epoch > 0:
                assert consumer.held <= owned(member)

    def check_group(self, group: ConsumerGroup) -> None:
        assert group.epoch >= self.highest.get(group.group_id, 0)
        self.highest[group.group_id] = group.epoch
        assert group.assignment_epoch <= group.epoch
        members = group.members.values()
        assert all(m.epoch <= group.assignment_epoch for m in members)
        owners = Counter(partition for m in members for partition in owned(m))
        assert not owners or max(owners.values()) == 1
        assert owners.keys() == {(t, p) for t, epochs in group.partition_epochs.items() for p in epochs}
        for member in members:
            assert all(group.partition_epoch(t, p) == member.epoch for t, p in owned(member))
        assert dict(group.asked.names) == Counter(name for m in members for name in m.names)
        assert dict(group.asked.regexes) == Counter(m.regex for m in members if m.regex)
        assert dict(group.asked.assignors) == Counter(m.server_assignor for m in members if m.server_assignor)
        assert dict(group.static_members) == {m.instance_id: m.member_id for m in members if m.instance_id}
        assert set(group.target) <= set(group.members)
        assert set(group.resolved) <= set(group.asked.regexes)

    def come_to_rest(self) -> None:
        """Let nothing more go wrong, and see that all comes to rest as it should."""
        self.refusing = self.losing = 0.0
        self.telling = 1.0
        for _ in range(40):
            self.advance(2_000)
            for consumer in self.consumers:
                consumer.held = set(consumer.wanted)
                self.beat_once(consumer)
                self.check()
        world = self.cluster.world()
        for group in self.shard.image.consumers.values():
            assert group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY), group
            living = {c.member_id: c for c in self.consumers if c.group == group.group_id}
            assert set(group.members) == set(living)
            wanted = {(t, p) for t in world.ids_of(group.subscribed_topics()) for p in range(world.partition_count(t))}
            assigned = Counter(partition for c in living.values() for partition in c.held)
            assert assigned == dict.fromkeys(wanted, 1)
            for member_id, consumer in living.items():
                topics = world.ids_of(group.topics_of(group.members[member_id]))
                assert {t for t, _ in consumer.held} <= topics
            self.settled += 1


def owned(member: ConsumerMember) -> set[Partition]:
    both = (member.assigned, member.pending_revocation)
    assert all(mine for one in both for mine in one.values())
    return {(topic, partition) for one in both for topic, mine in one.items() for partition in mine}


@pytest.mark.sim
def test_a_random_life_keeps_the_invariants_and_comes_to_rest(sim_seed: int) -> None:
    life = Life(sim_seed)
    for _ in range(3):
        for _ in range(300):
            life.event()
        life.come_to_rest()
        life.refusing, life.losing, life.telling = 0.02, 0.05, 0.2
    life.hand_over()
    assert life.settled == 6


def test_the_same_seed_gives_the_same_life() -> None:
    assert is_repeatable(Life, seed=4)


def test_giving_away_what_is_not_released_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "partition_epoch", lambda *_: FREE)
    assert mistakes_found(Life)


def test_taking_a_promise_to_revoke_for_the_deed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reconciliation, "_still_holds", lambda *_: False)
    assert mistakes_found(Life)


def test_a_member_that_is_never_reconciled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Reconciliation.step

    def stuck(self: Reconciliation, member: ConsumerMember) -> ConsumerMember:
        return member if member.state is MemberState.UNRELEASED_PARTITIONS else step(self, member)

    monkeypatch.setattr(Reconciliation, "step", stuck)
    assert mistakes_found(Life)
