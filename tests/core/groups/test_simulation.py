"""Clients that join, crash, dawdle and come back, on virtual time with one seed; invariants after every event.

- Within a generation all agree on protocol and leader, and each gets what that leader assigned to it.
- Generations never go back while a coordinator lives.
- An acknowledged offset is what a fetch gives until a later commit is acknowledged.
- Replaying what was written gives the live offsets always, and the live group whenever it is settled.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Now, Step
from barnabas.core.groups import offset_requests
from barnabas.core.groups.classic import ClassicGroup, ClassicGroupState
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.image import ShardImage
from barnabas.core.groups.shard import GroupShard
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.wire.records.group_metadata_key import GroupMetadataKey
from tests.core.groups.driving import WALL_START_MS, Driver, Parked

E = ErrorCode
GROUPS = ("g", "h")
CONFIG = GroupConfig(max_size=5, offsets_retention_check_interval_ms=60_000)
START_AGAIN = (E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND, E.ILLEGAL_GENERATION, E.GROUP_MAX_SIZE_REACHED)


@dataclass(eq=False)
class Client:
    """What a consumer knows. name: its instance when static, else made up at each start."""

    number: int
    group: str
    instance: str | None
    member_id: str = ""
    joined: JoinGroupResponse | None = None
    joining: Parked | None = None
    syncing: Parked | None = None

    def forget(self, *, keep_id: bool = False) -> None:
        self.joined = self.joining = self.syncing = None
        if not keep_id:
            self.member_id = ""


class Simulation(Driver):
    """The driver with a log that sometimes refuses, commits late, and outlives its coordinator."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.shadow = GroupShard(CONFIG, self.new_uuid)
        self.durable = ShardImage()
        self.dirty: set[str] = set()
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.incarnation = 0
        self.deletions = 0
        self.assigned = 0
        self.highest: dict[str, int] = {}
        self.agreed: dict[tuple[str, int, int, int], tuple[str | None, str]] = {}
        self.instances: dict[str, str] = {}
        self.clients = [Client(n, GROUPS[n % 2], f"static-{n // 4}" if n % 4 < 2 else None) for n in range(12)]
        super().__init__(CONFIG)

    # the log

    def carry(self, step: Step[Any]) -> Any:
        for reply in step.replies:
            assert isinstance(reply.waiter, Parked)
            if reply.waiter.response is None:  # a late refusal of what was answered meanwhile is dropped
                reply.waiter.response = reply.response
        if step.records and self.rng.random() < 0.02:
            self.refuse(step)
            raise ApiError(E.NOT_COORDINATOR)
        for record in step.records:
            self.write(record, replay=step.replay)
        if step.records:
            self.durable = self.shard.image
        if step.resume is not None:
            self.held.append(step)
            self.settle_some()
        return step.response

    def write(self, record: CoordinatorRecord, *, replay: bool) -> None:
        at = At(len(self.log), now_ms=self.now.wall_ms)
        if replay:
            self.shard.replay(record, at)
        self.log.append((record, self.shard.image))
        self.shadow.replay(record, at)
        if isinstance(record.key, GroupMetadataKey):
            self.dirty.discard(record.key.group)
            if record.value is None:
                self.deletions += 1  # the next group of the name begins at generation 0
                self.highest.pop(record.key.group, None)

    def refuse(self, step: Step[Any]) -> None:
        self.shard.image = self.durable
        self.dirty.update(r.key.group for r in step.records if isinstance(r.key, GroupMetadataKey))
        if step.resume is not None:
            self.carry_quietly(step.resume(E.NOT_COORDINATOR, self.now))

    def carry_quietly(self, step: Step[Any]) -> None:
        with suppress(ApiError):
            self.carry(step)

    def settle_some(self, at_least: float = 0.6) -> None:
        while self.held and self.rng.random() < at_least:
            resume = self.held.popleft().resume
            assert resume is not None
            self.carry_quietly(resume(E.NONE, self.now))

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            step = self.shard.tick(self.now)
            if step is not None:
                self.carry_quietly(step)
        self.now_ms = end

    def restart(self) -> None:
        """Another coordinator takes over with nothing but the log."""
        for reply in self.shard.unload(self.now).replies:
            assert isinstance(reply.waiter, Parked)
            if reply.waiter.response is None:
                reply.waiter.response = reply.response
        self.held.clear()
        self.dirty.clear()
        self.incarnation += 1
        self.highest.clear()
        self.shard = GroupShard(CONFIG, self.new_uuid)
        for offset, (record, _) in enumerate(self.log):
            self.shard.replay(record, At(offset, now_ms=WALL_START_MS))
        self.durable = self.shard.image
        self.carry_quietly(self.shard.loaded(self.now))

    # the clients

    def act(self, client: Client) -> None:
        try:
            if client.joining is not None:
                self.joining(client)
            elif client.syncing is not None:
                self.syncing(client)
            elif client.joined is None:
                self.begin(client)
            else:
                self.live(client, client.joined)
        except ApiError as e:
            self.refused(client, e.code)

    def refused(self, client: Client, code: ErrorCode) -> None:
        if code is E.NOT_COORDINATOR:
            return
        assert code in (*START_AGAIN, E.FENCED_INSTANCE_ID, E.REBALANCE_IN_PROGRESS), code
        client.forget(keep_id=code is E.REBALANCE_IN_PROGRESS)

    def begin(self, client: Client) -> None:
        protocols = [("range", b"r"), ("sticky", b"s")]
        if self.rng.random() < 0.3:
            protocols.reverse()
        client.joining = Parked()
        client.joining = self.join(
            client.member_id, group=client.group, instance=client.instance, protocols=protocols, rebalance_ms=9_000
        )

    def joining(self, client: Client) -> None:
        assert client.joining is not None
        response = client.joining.response
        if response is None:
            return
        client.joining = None
        if response.error_code == E.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code in START_AGAIN or response.error_code == E.FENCED_INSTANCE_ID:
            client.forget()
        elif response.error_code == E.NONE:
            self.admitted(client, response)

    def admitted(self, client: Client, response: JoinGroupResponse) -> None:
        client.member_id, client.joined = response.member_id, response
        if client.instance is not None:
            self.instances[client.member_id] = client.instance
        assert any(m.member_id == client.member_id for m in response.members) or not response.members
        leads = response.leader == response.member_id and not response.skip_assignment
        assignment = {
            m.member_id: f"{response.generation_id}/{m.group_instance_id or m.member_id}".encode()
            for m in response.members
        }
        client.syncing = Parked()
        client.syncing = self.sync(
            response, assignment if leads else None, group=client.group, instance=client.instance
        )

    def syncing(self, client: Client) -> None:
        assert client.syncing is not None
        assert client.joined is not None
        response = client.syncing.response
        if response is None:
            return
        client.syncing = None
        code = ErrorCode(response.error_code)
        if code is E.NONE:
            want = f"{client.joined.generation_id}/{client.instance or client.member_id}".encode()
            assert response.assignment == want
            self.assigned += 1
        elif code in (E.NOT_COORDINATOR, E.REBALANCE_IN_PROGRESS):
            client.forget(keep_id=True)
        else:
            self.refused(client, code)

    def live(self, client: Client, joined: JoinGroupResponse) -> None:
        choice = self.rng.random()
        who: dict[str, Any] = {
            "group": client.group,
            "member_id": client.member_id,
            "generation": joined.generation_id,
            "instance": client.instance,
        }
        if choice < 0.5:
            code = self.heartbeat(client.member_id, joined.generation_id, group=client.group, instance=client.instance)
            if code.error_code == E.REBALANCE_IN_PROGRESS:
                client.forget(keep_id=True)
        elif choice < 0.97:
            partition, offset = self.rng.randrange(3), self.rng.randrange(1 << 30)
            self.commit({("t", partition): offset}, **who)
            self.acknowledged[client.group, partition] = offset
        elif choice < 0.985:
            self.leave(MemberIdentity(member_id=client.member_id), group=client.group)
            client.forget()
        else:
            client.forget(keep_id=True)  # asks for a rebalance

    def event(self) -> None:
        choice = self.rng.random()
        if choice < 0.12:
            self.advance(self.rng.choice((1, 100, 700, 3_000)))
        elif choice < 0.125:
            self.advance(self.rng.choice((15_000, 200_000)))
        elif choice < 0.13:
            self.rng.choice(self.clients).forget()  # crashed, and started again
        elif choice < 0.133:
            self.restart()
        elif choice < 0.2:
            self.settle_some(1.0)
        else:
            self.act(self.rng.choice(self.clients))
        self.check()

    # invariants

    def check(self) -> None:
        assert self.shard.image.offsets == self.shadow.image.offsets
        for group_id, group in self.shard.image.groups.items():
            self.check_group(group_id, group)
        for (group_id, partition), offset in self.acknowledged.items():
            assert self.offset(group_id, partition) == offset

    def check_group(self, group_id: str, group: ClassicGroup) -> None:
        assert group.generation >= self.highest.get(group_id, 0)
        self.highest[group_id] = group.generation
        assert group.awaiting_join_count == sum(m.awaiting_join is not None for m in group.members.values())
        assert set(group.static_members.values()) <= set(group.members)
        assert group.leader is None or group.leader in group.members
        if group.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            leader = self.instances.get(group.leader or "", group.leader or "")
            key = (group_id, self.incarnation, self.deletions, group.generation)
            assert self.agreed.setdefault(key, (group.protocol, leader))[0] == group.protocol
        settled = group.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY)
        if settled and not self.held and group_id not in self.dirty:
            assert described(group) == described(self.shadow.image.groups[group_id])

    def offset(self, group_id: str, partition: int) -> int:
        request = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        found = offset_requests.fetch(self.shard.image, request, require_stable=True)
        by_partition = {p.partition_index: p.committed_offset for t in found.topics for p in t.partitions}
        return by_partition[partition]


def described(group: ClassicGroup) -> tuple[object, ...]:
    members = {m.member_id: (m.group_instance_id, m.assignment) for m in group.members.values()}
    return (group.state, group.generation, group.protocol, group.leader, members)


@pytest.mark.sim
def test_a_random_life_keeps_the_invariants(sim_seed: int) -> None:
    simulation = Simulation(sim_seed)
    for _ in range(1_000):
        simulation.event()
    assert simulation.acknowledged
    assert simulation.assigned > 10


def test_the_same_seed_gives_the_same_life() -> None:
    lives = []
    for _ in range(2):
        simulation = Simulation(4)
        for _ in range(200):
            simulation.event()
        lives.append([record for record, _ in simulation.log])
    assert lives[0] == lives[1]


def test_replaying_any_prefix_gives_the_offsets_of_that_moment() -> None:
    simulation = Simulation(11)
    for _ in range(300):
        simulation.event()
    shard = GroupShard(CONFIG, simulation.new_uuid)
    for offset, (record, live) in enumerate(simulation.log):
        shard.replay(record, At(offset))
        assert {g: sorted(t) for g, t in shard.image.offsets.by_group.items()} == {
            g: sorted(t) for g, t in live.offsets.by_group.items()
        }
        assert shard.image.offsets == live.offsets
    assert Now(0, 0) < simulation.now
