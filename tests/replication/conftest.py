"""Three brokers and a controller in this process, shared by the tests that neither kill nor pause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing.local import LocalCluster
from tests.replication.looking import SETTINGS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("replicas"),
        controllers=1,
        brokers=3,
        plaintext=True,
        racks=("a", "b", "c"),
        properties=SETTINGS,
    ) as made:
        yield made
