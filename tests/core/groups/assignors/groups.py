"""Groups to assign partitions to: written short by hand, or drawn at random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from barnabas.core.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from barnabas.model.uuid import Uuid


def topic(number: int) -> Uuid:
    """Give the id of topic `number`."""
    return Uuid(number.to_bytes(16, "big"))


@dataclass(frozen=True)
class Cluster:
    """Topics 1, 2, ... of some sizes."""

    sizes: Mapping[Uuid, int] = field(default_factory=dict)

    @classmethod
    def of(cls, *sizes: int) -> Cluster:
        return cls({topic(i): size for i, size in enumerate(sizes, 1)})

    def partition_count(self, topic_id: Uuid) -> int:
        return self.sizes.get(topic_id, -1)

    def racks_of(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        return frozenset({f"rack-{partition % 3}"})


Partitions = Mapping[int, Iterable[int]]
"""Partitions by the number of their topic."""


def member(*subscribed: int, has: Partitions | None = None, instance_id: str | None = None) -> MemberSpec:
    """Give a member that wants these topics and has these partitions."""
    assigned = {topic(number): frozenset(partitions) for number, partitions in (has or {}).items()}
    return MemberSpec(None, instance_id, frozenset(topic(number) for number in subscribed), assigned)


def group(members: Mapping[str, MemberSpec]) -> GroupSpec:
    """Give the group of these members."""
    return GroupSpec(members, len({one.subscribed for one in members.values()}) <= 1)


def shown(assignment: Assignment) -> dict[str, dict[int, list[int]]]:
    """Give the assignment as one writes it: topics by number, partitions sorted."""
    return {
        member_id: {int.from_bytes(topic_id, "big"): sorted(numbers) for topic_id, numbers in sorted(topics.items())}
        for member_id, topics in assignment.items()
    }


def after(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """Give the group as it is when the assignment has become its own."""
    return GroupSpec(
        {
            member_id: MemberSpec(one.rack_id, one.instance_id, one.subscribed, assignment.get(member_id, {}))
            for member_id, one in spec.members.items()
        },
        spec.homogeneous,
    )


@st.composite
def situations(draw: st.DrawFn, homogeneous: bool | None = None) -> tuple[GroupSpec, Cluster]:
    """Draw a cluster and a group in it, whose members have partitions that they may not want any more."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5))
    numbers = range(1, len(sizes) + 1)
    count = draw(st.integers(1, 7))
    some = st.frozensets(st.sampled_from(numbers), min_size=0 if homogeneous is False else 1)
    alike = draw(st.booleans()) if homogeneous is None else homogeneous
    common = draw(some)
    wanted = [common if alike else draw(some) for _ in range(count)]
    has: list[dict[int, set[int]]] = [{} for _ in range(count)]
    for number, size in zip(numbers, sizes, strict=True):
        for partition, owner in enumerate(draw(st.lists(st.integers(-1, count - 1), max_size=size))):
            if owner >= 0:
                has[owner].setdefault(number, set()).add(partition)
    members = {
        f"m{i}": member(*wanted[i], has=has[i], instance_id=draw(st.sampled_from((None, f"i{count - i}"))))
        for i in range(count)
    }
    return group(members), Cluster.of(*sizes)
