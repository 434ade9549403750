"""Leaders and followers through crashes, lost messages and changes of the ISR, from a seed."""

from __future__ import annotations

import pytest

from tests.sim.replication.world import World

EVENTS = 600


@pytest.mark.sim
@pytest.mark.slow
def test_no_acknowledged_record_is_lost_and_replicas_agree(sim_seed: int) -> None:
    world = World(sim_seed)
    world.run(EVENTS)
    world.heal()
    assert world.acked
