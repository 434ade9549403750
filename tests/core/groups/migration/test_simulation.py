"""Members of both protocols that come, go, crash and change theirs, on virtual time with one seed.

- No two members of a consumer group have one partition; who holds one, has it.
- Generations and epochs of a group are one count, which only grows.
- Replaying the log gives the consumer groups always, and a classic group whenever it is settled.
- When nothing more goes wrong, each group is of the kind that its members ask for, and soon every partition of every
  topic that is read is held by one member.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Step
from barnabas.core.groups import embedded, migrating
from barnabas.core.groups.classic import ClassicGroup, ClassicGroupState
from barnabas.core.groups.config import ConsumerGroupConfig, GroupConfig
from barnabas.core.groups.consumer.group import FREE, ConsumerGroup, ConsumerGroupState
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.group_metadata_key import GroupMetadataKey
from tests.core.groups.consumer.driving import Consumer, listed
from tests.core.groups.consumer.test_simulation import owned
from tests.core.groups.driving import WALL_START_MS, Parked
from tests.core.groups.lives import is_repeatable, mistakes_found
from tests.core.groups.migration import driving
from tests.core.groups.migration.driving import Classic, MigrationDriver

E = ErrorCode
READ_ASSIGNMENT = embedded.read_assignment
GROUPS = ("g", "h")
TOPICS = (["t0", "t1"], ["t0", "t1"], ["t1", "t2"], ["t2", "absent"])


class Life(MigrationDriver):
    """Two groups of up to four consumers each."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.born = 0
        self.refusing = self.losing = 0.03
        self.highest: dict[str, int] = {}
        self.dirty: set[str] = set()
        self.moves: Counter[str] = Counter()
        self.kinds: dict[str, bool] = {}
        self.sure: dict[Classic, tuple[int, str]] = {}
        self.cooperative = self.rng.random() < 0.5
        self.classic_share = self.rng.choice((0.3, 0.6, 0.9))
        config = GroupConfig(initial_rebalance_delay_ms=500, max_size=6, consumer=ConsumerGroupConfig(max_size=6))
        super().__init__(config)
        self.shadow = self.new_shard()
        self.durable = self.shard.image
        for name in ("t0", "t1", "t2"):
            self.cluster.create(name, self.rng.randint(1, 4))
        self.clients = [self.fresh(GROUPS[n % 2], f"i{n}" if n % 4 < 2 else None) for n in range(8)]

    def fresh(self, group: str, instance: str | None) -> Consumer | Classic:
        self.born += 1
        # A stable classic group takes a static member back whatever it reads now: so each reads the same always.
        topics = list(self.rng.choice(TOPICS) if instance is None else TOPICS[int(instance[1:]) % len(TOPICS)])
        if self.rng.random() < self.classic_share:
            return Classic(group, instance, topics, self.cooperative)
        return Consumer(f"m{self.born}", group, instance, topics)

    # the log

    def carry(self, step: Step[Any]) -> Any:
        self.release(step)
        if step.records and self.rng.random() < self.refusing:
            self.shard.image = self.durable
            self.dirty.update(r.key.group for r in step.records if isinstance(r.key, GroupMetadataKey))
            if step.resume is not None:
                self.release(step.resume(E.NOT_COORDINATOR, self.now))
            raise ApiError(E.NOT_COORDINATOR)
        for record in step.records:
            at = At(len(self.log), now_ms=self.now.wall_ms)
            if step.replay:
                self.shard.replay(record, at)
            self.log.append((record, self.shard.image))
            self.shadow.replay(record, at)
            if isinstance(record.key, GroupMetadataKey):
                self.dirty.discard(record.key.group)
        self.durable = self.shard.image
        if step.resume is not None:
            with suppress(ApiError):
                self.carry(step.resume(E.NONE, self.now))
        return step.response

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            step = self.shard.tick(self.now)
            if step is not None:
                with suppress(ApiError):
                    self.carry(step)
        self.now_ms = end

    def hand_over(self) -> None:
        """Another coordinator takes over with nothing but the log."""
        self.release(self.shard.unload(self.now))
        self.shard = self.new_shard()
        for offset, (record, _) in enumerate(self.log):
            self.shard.replay(record, At(offset, now_ms=WALL_START_MS))
        self.dirty.clear()
        self.durable = self.shard.image
        self.highest.clear()
        with suppress(ApiError):
            self.carry(self.shard.loaded(self.now))

    def release(self, step: Step[Any]) -> None:
        for reply in step.replies:
            assert isinstance(reply.waiter, Parked)
            if reply.waiter.response is None:  # a late refusal of what was answered meanwhile is dropped
                reply.waiter.response = reply.response

    # the clients

    def act(self, client: Consumer | Classic) -> None:
        if isinstance(client, Classic):
            was = client.syncing
            self.move(client)
            if was is not None and was.response is not None and was.error is E.NONE:
                self.sure[client] = (client.generation, client.member_id)
            return
        if self.rng.random() < self.losing:
            return  # the request is lost
        request = client.request(full=self.rng.random() < 0.2)
        request.topic_partitions = listed(client.held | client.wanted)
        try:
            response = self.send(request)
        except ApiError as e:
            self.refused(client, e.code)
            return
        if self.rng.random() < self.losing:
            return  # the answer is lost
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.wanted = {(t.topic_id, p) for t in response.assignment.topic_partitions for p in t.partitions}

    def catch_up(self, client: Consumer | Classic) -> None:
        if isinstance(client, Consumer):
            client.held = set(client.wanted)

    def refused(self, client: Consumer, code: ErrorCode) -> None:
        if client.epoch == 0 and code is E.GROUP_ID_NOT_FOUND:
            return  # a classic group with more members than a consumer group may have, gone ones among them
        if code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND, E.FENCED_INSTANCE_ID):
            assert client.epoch > 0, code
            client.fenced()
        else:
            assert code in (E.NOT_COORDINATOR, E.UNRELEASED_INSTANCE_ID, E.GROUP_MAX_SIZE_REACHED), code

    def again(self, client: Consumer | Classic) -> None:
        """Put a new process in the place of one that is gone; it may speak the other protocol."""
        new = self.fresh(client.group, client.instance)
        self.clients[self.clients.index(client)] = new

    def go(self, client: Consumer | Classic) -> None:
        try:
            if isinstance(client, Classic):
                if not client.settled:
                    return
                self.away_as(client)
            else:
                if client.epoch == 0:
                    return
                self.away(client, self.rng.choice((-1, -2)) if client.instance else -1)
        except ApiError as e:
            if isinstance(client, Consumer):
                self.refused(client, e.code)
        else:
            self.again(client)

    def event(self) -> None:
        choice, client = self.rng.random(), self.rng.choice(self.clients)
        if choice < 0.65:
            self.act(client)
        elif choice < 0.75:
            self.catch_up(client)
        elif choice < 0.92:
            self.advance(self.rng.choice((1, 200, 1_000, 2_000)))
        elif choice < 0.925:
            self.advance(self.rng.choice((12_000, 50_000)))
        elif choice < 0.955:
            self.go(client)
        elif choice < 0.965:
            self.again(client)  # crashed
        elif choice < 0.975:
            self.hand_over()
        elif choice < 0.985:
            name = self.rng.choice(("t0", "t1", "t2"))
            self.cluster.grow(name, len(self.cluster.topics[name].racks) + 1)
        else:
            for one in [c for c in self.clients if c.group == client.group]:
                self.go(one)  # all of them, one after the other
        self.check()

    # invariants

    def check(self) -> None:
        image = self.shard.image
        assert not set(image.groups) & set(image.consumers)
        assert image.consumers == self.shadow.image.consumers
        for group_id in GROUPS:
            group = image.consumers.get(group_id) or image.groups.get(group_id)
            if group is None:
                self.highest.pop(group_id, None)
                self.kinds.pop(group_id, None)
                continue
            self.note_kind(group_id, group)
            if isinstance(group, ConsumerGroup):
                self.check_consumers(group)
            else:
                self.check_classic(group)

    def note_kind(self, group_id: str, group: ClassicGroup | ConsumerGroup) -> None:
        is_consumer = isinstance(group, ConsumerGroup)
        count = group.epoch if isinstance(group, ConsumerGroup) else group.generation
        was = self.kinds.get(group_id)
        if was is not None and was != is_consumer:
            empty = group.is_empty if isinstance(group, ConsumerGroup) else group.state is ClassicGroupState.EMPTY
            self.moves[("up" if is_consumer else "down") + (" empty" if empty else "")] += 1
            for client in [c for c in self.sure if c.group == group_id]:
                del self.sure[client]
            if count < self.highest.get(group_id, 0):
                # Only when nobody was left does a group of the other kind begin anew.
                assert count <= 2
                self.highest.pop(group_id)
        self.kinds[group_id] = is_consumer
        assert count >= self.highest.get(group_id, 0)
        self.highest[group_id] = count

    def check_consumers(self, group: ConsumerGroup) -> None:
        members = group.members.values()
        owners = Counter(partition for m in members for partition in owned(m))
        assert not owners or max(owners.values()) == 1
        assert owners.keys() == {(t, p) for t, epochs in group.partition_epochs.items() for p in epochs}
        assert group.asked.classic_members == sum(m.uses_classic for m in members)
        names = Counter(n for m in members if m.classic for n in {name for name, _ in m.classic.protocols})
        assert dict(group.asked.classic_protocols) == names
        assert set(group.target) <= set(group.members)
        assert all(m.epoch <= group.assignment_epoch <= group.epoch for m in members)
        for client in self.clients:
            member = group.members.get(client.member_id) if client.group == group.group_id else None
            if member is None:
                continue
            if isinstance(client, Consumer):
                assert client.epoch == 0 or client.held <= owned(member)
            elif self.sure.get(client) == (member.epoch, member.member_id):
                assert client.held <= self.places(owned(member))
        if not self.cooperative:
            self.check_nobody_shares(group)

    def check_nobody_shares(self, group: ConsumerGroup) -> None:
        """See that members that think they are some hold nothing in common.

        Cooperative ones may: a classic group forgets what they keep when its leader's work is void, with Kafka too.
        """
        members = [c for c in self.clients if c.group == group.group_id and c.member_id in group.members]
        held = Counter(place for c in members for place in self.holding(c, at_most=True))
        assert not held or max(held.values()) == 1

    def check_classic(self, group: ClassicGroup) -> None:
        assert group.awaiting_join_count == sum(m.awaiting_join is not None for m in group.members.values())
        assert set(group.static_members.values()) <= set(group.members)
        settled = group.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY)
        if settled and group.group_id not in self.dirty:
            assert described(group) == described(self.shadow.image.groups[group.group_id])

    def come_to_rest(self) -> None:
        """Let nothing more go wrong, and see that all comes to rest as it should."""
        self.refusing = self.losing = 0.0
        for _ in range(70):
            self.advance(1_000)
            for client in self.clients:
                self.catch_up(client)
                self.remind(client)
                self.act(client)
                self.check()
        for group_id in GROUPS:
            self.check_rest(group_id)

    def remind(self, client: Consumer | Classic) -> None:
        """Have a leader that has dealt nothing look at the topics.

        One that was not told that it leads (after a downgrade without a rebalance), or was told to skip its work
        (KIP-814), never hears of what changed before: with Kafka neither.
        """
        group = self.shard.image.groups.get(client.group)
        if isinstance(client, Classic) and client.dealt is None and group is not None:
            client.dealt = {} if group.leader == client.member_id else None

    def check_rest(self, group_id: str) -> None:
        living = [c for c in self.clients if c.group == group_id]
        group = self.shard.image.consumers.get(group_id) or self.shard.image.groups.get(group_id)
        assert group is not None
        assert isinstance(group, ConsumerGroup) == any(isinstance(c, Consumer) for c in living)
        assert group.state in (ConsumerGroupState.STABLE, ClassicGroupState.STABLE), group
        assert set(group.members) == {c.member_id for c in living}
        world = self.cluster.world()
        read = {t for c in living for t in ((c.topics if isinstance(c, Classic) else c.names) or [])}
        wanted = {(t, p) for t in read if t in world.by_name for p in range(len(world.by_name[t].racks))}
        held = Counter(place for c in living for place in self.holding(c))
        assert held == dict.fromkeys(wanted, 1)
        for client in living:
            topics = client.topics if isinstance(client, Classic) else client.names or []
            assert {t for t, _ in self.holding(client)} <= set(topics)

    def holding(self, client: Consumer | Classic, *, at_most: bool = False) -> set[tuple[str, int]]:
        """Give what the client holds; at_most: with what it is about to take."""
        if isinstance(client, Classic):
            return set(client.held)
        return self.places(client.held | client.wanted if at_most else client.held)


def described(group: ClassicGroup) -> tuple[object, ...]:
    members = {m.member_id: (m.group_instance_id, m.assignment) for m in group.members.values()}
    return (group.state, group.generation, group.protocol, group.leader, members)


@pytest.mark.sim
def test_a_random_life_keeps_the_invariants_and_comes_to_rest(sim_seed: int) -> None:
    life = Life(sim_seed)
    for _ in range(3):
        for _ in range(250):
            life.event()
        life.come_to_rest()
        life.refusing = life.losing = 0.03


def test_groups_move_both_ways_with_members_in_them() -> None:
    moves: Counter[str] = Counter()
    for seed in range(4):
        life = Life(seed)
        for _ in range(500):
            life.event()
        moves += life.moves
    assert moves["up"] > 3
    assert moves["down"] > 3


def test_forgetting_what_classic_members_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "read_assignment", lambda data: embedded.Assignment({}, b""))
    monkeypatch.setattr(driving, "read_assignment", READ_ASSIGNMENT)
    assert mistakes_found(Life)


def test_giving_away_what_is_not_released_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "partition_epoch", lambda *_: FREE)
    assert mistakes_found(Life)


def test_a_group_that_does_not_move_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "may_downgrade", lambda *_: False)
    assert mistakes_found(Life)


def test_classic_members_that_are_not_told_to_join_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "must_rejoin", lambda *_: False)
    assert mistakes_found(Life)


def test_the_same_seed_gives_the_same_life() -> None:
    assert is_repeatable(Life, seed=4)
