"""Feature levels raised and lowered, as Apache Kafka's controller allows it."""

from __future__ import annotations

import pytest

from .conftest import Both, Start
from .side import FEATURES, ControllerSide, an_id

pytestmark = [pytest.mark.peer]

UPGRADE, SAFE, UNSAFE = 1, 2, 3
VERSION, ELR = "metadata.version", "eligible.leader.replicas.version"


def update(side: ControllerSide, *levels: tuple[str, int, int], version: int = -1, check: bool = False) -> None:
    """Ask for levels: name, level, kind of change."""
    updates = [{"feature": f, "max_version_level": level, "upgrade_type": kind} for f, level, kind in levels]
    side.call("UpdateFeatures", version, feature_updates=updates, validate_only=check, note=str(levels))


def test_levels_go_up_and_what_was_not_known_before_begins(controllers: Start) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2)
        side.topic("t", [1, 2])
        update(side, (VERSION, 6, SAFE))
        update(side, (VERSION, 31, UPGRADE))
        update(side, (VERSION, 13, UPGRADE))
        update(side, (VERSION, 13, SAFE))
        update(side, (VERSION, 12, SAFE))
        update(side, (VERSION, 12, UNSAFE))
        update(side, (ELR, 1, UPGRADE))
        side.beat(2, want_fence=True)
        side.register(1)
        update(side, (VERSION, 17, UPGRADE), check=True)
        update(side, (VERSION, 17, UPGRADE))
        side.register(3)
        side.beat(3)
        side.register(4, log_dirs=[])
        side.topic("u", [1, 3])
        update(side, (VERSION, 23, UPGRADE))
        update(side, (ELR, 1, UPGRADE), (VERSION, 22, SAFE))
        update(side, (VERSION, 25, UPGRADE), (ELR, 1, UPGRADE))
        update(side, (VERSION, 24, SAFE))
        update(side, (VERSION, 23, SAFE), check=True)
        update(side, (VERSION, 22, SAFE))
        update(side, (VERSION, 22, UNSAFE))
        side.beat(3, cordoned_log_dirs=[])
        side.alter_partition(1, "u", isr=[1], leader_epoch=0, partition_epoch=0)
        update(side, (ELR, 0, SAFE))
        side.alter_partition(1, "u", isr=[1, 3], leader_epoch=0, partition_epoch=1)
        update(side, (ELR, 0, SAFE), version=1)
        update(side, (VERSION, 29, UPGRADE), version=0)
        update(side, (VERSION, 27, SAFE), version=1)
        update(side, (VERSION, 30, UPGRADE))
        update(side, (VERSION, 29, SAFE))
        side.beat(3, cordoned_log_dirs=[side.directory(3)])
        update(side, ("kraft.version", 1, UPGRADE), check=True)
        update(side, ("kraft.version", 1, UPGRADE))
        update(side, ("kraft.version", 1, UPGRADE))
        update(side, ("kraft.version", 0, SAFE))

    controllers({VERSION: 12}).run(script)


@pytest.mark.parametrize("kind", [0, UPGRADE, SAFE, UNSAFE, 9])
def test_what_is_refused(both: Both, kind: int) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1)
        for version in (1, 2):
            for name in (VERSION, ELR, "kraft.version", "no.such.feature"):
                for level in (-1, 0, 2, 30, 99):
                    update(side, (name, level, kind), version=version, check=True)
        update(side, (VERSION, 30, kind))
        update(side, (ELR, 0, kind))
        update(side, (VERSION, 30, UPGRADE), ("no.such.feature", 1, kind))

    both.run(script)


def test_every_node_must_support_a_level(controllers: Start) -> None:
    def script(side: ControllerSide) -> None:
        def supporting(highest: int) -> list[dict[str, object]]:
            levels = {**FEATURES, VERSION: (7, highest)}
            return [{"name": n, "min_supported_version": a, "max_supported_version": b} for n, (a, b) in levels.items()]

        side.register(1, features=supporting(26))
        update(side, (VERSION, 27, UPGRADE))
        update(side, (VERSION, 26, UPGRADE), check=True)
        side.register(2, features=supporting(24))
        side.call("UnregisterBroker", broker_id=1)
        side.call(
            "ControllerRegistration",
            controller_id=3999,
            incarnation_id=an_id(4, 1),
            listeners=[{"name": "CONTROLLER", "host": "h", "port": 1, "security_protocol": 0}],
            features=supporting(25),
        )
        update(side, (VERSION, 26, UPGRADE))
        update(side, (VERSION, 25, UPGRADE))

    controllers({VERSION: 25}).run(script)


def test_a_level_decides_how_records_are_written(controllers: Start) -> None:
    def script(side: ControllerSide) -> None:
        side.cluster(1, 2)
        side.topic("t", [1, 2], [2, 1])
        side.alter_partition(1, "t", isr=[1], leader_epoch=0, partition_epoch=0)
        side.beat(2, want_fence=True)
        side.beat(2, offline_log_dirs=[side.directory(2)])
        side.reassign("t", [2])
        side.call("UnregisterBroker", broker_id=2)

    controllers({VERSION: 7}).run(script)
