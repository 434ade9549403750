"""Real ZooKeeper for the tests: one secured server for the run, and what a test of its own asks for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import pytest

from tests.peers.zookeeper import ZooKeeper

_NUMBERS: Final = itertools.count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Give one secured server for the run, that knows the users of `USERS`. Use a chroot of your own."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as found:
        yield found


@pytest.fixture
def chroot() -> str:
    """Give a chroot that nobody else has; it is not made yet."""
    return f"/chroot-{next(_NUMBERS)}"
