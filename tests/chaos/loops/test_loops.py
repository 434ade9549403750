"""Three quarters of a minute of chaos for loops; `make chaos CHAOS_LOAD=loops` runs it for longer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.testing.plugin import MakeCluster
from tests.chaos.loops import checks
from tests.chaos.loops.run import PROPERTIES, LoopRun, run

SECONDS = 40
SEED = "833"
"""By which loops are killed, alone and with a node, and replaced, before anything else happens."""
WAIT_SECONDS = 120

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.cluster]


def test_each_record_comes_through_once_whatever_is_killed(barnabas_clusters: MakeCluster, tmp_path: Path) -> None:
    cluster = barnabas_clusters(combined=3, processes=True, proxied=True, properties=PROPERTIES)
    seed = int(os.environ.get("BARNABAS_SEED", SEED))
    account = run(cluster, tmp_path, seed=seed, seconds=SECONDS, longest_fault_s=2.0)
    print("\n".join(account.lines()))
    assert not account.wrong, cluster.logs()
    assert account.faults > 1
    assert account.restarts > 0
    assert account.outcome.topics["orders"][0]


def test_offsets_outside_of_the_transaction_are_found(barnabas_clusters: MakeCluster, tmp_path: Path) -> None:
    cluster = barnabas_clusters(combined=1, processes=True, properties=PROPERTIES)
    with LoopRun(cluster, tmp_path, seed=1, rate=200, careless=True) as loops:
        assert loops.wait_done(200, WAIT_SECONDS), cluster.logs()
        for client in loops.clients:
            client.kill()
            client.start()
        outcome = loops.outcome()
    assert checks.duplicated(outcome)
