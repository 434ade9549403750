"""Half a minute of chaos; `make chaos` runs it for longer."""

from __future__ import annotations

import os

import pytest

from barnabas.testing.plugin import MakeCluster
from tests.chaos.run import run

SECONDS = 18


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.cluster
def test_nothing_that_was_acknowledged_is_lost(barnabas_clusters: MakeCluster) -> None:
    cluster = barnabas_clusters(combined=3, processes=True, proxied=True)
    seed = int(os.environ.get("BARNABAS_SEED", "1"))
    account = run(cluster, seed=seed, seconds=SECONDS, rate=50, longest_fault_s=3.0)
    print("\n".join(account.lines()))
    assert not account.wrong, cluster.logs()
    assert account.faults > 0
    assert account.history.acknowledged
