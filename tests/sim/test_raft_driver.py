"""The quorum's shell under faults: the same driver, files and logs as in production, in virtual time."""

from __future__ import annotations

import pytest

from barnabas.core.raft.ready import InconsistentLogError

from .driver_world import run_history

pytestmark = pytest.mark.sim


def test_what_is_committed_survives_power_failures(sim_seed: int) -> None:
    # The first seeds belong to `make check` and must be quick.
    run_history(sim_seed, 5 if sim_seed < 20 else 30)


def test_a_quorum_that_does_not_flush_is_found_out() -> None:
    with pytest.raises(
        (AssertionError, InconsistentLogError), match=r"two batches are committed|what is committed here"
    ):
        run_histories_without_flushes()


def run_histories_without_flushes() -> None:
    """Run one after the other; a power failure takes what was committed from most of them."""
    for seed in range(20):
        run_history(seed, 10, durable=False)
