"""The Raft core under faults: every seed is another history. `make sim` runs thousands."""

from __future__ import annotations

import pytest

from .raft_histories import run_history

pytestmark = pytest.mark.sim


def test_the_promises_hold_and_the_quorum_recovers(sim_seed: int) -> None:
    run_history(sim_seed)
