"""One secured and one plain node, started by `barnabas run`, for all tests here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.clients.nodes import ServedNode


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """Give the node that `barnabas run` makes by itself: SASL_SSL, SCRAM, ACLs."""
    with ServedNode(tmp_path_factory.mktemp("secured")) as node:
        yield node


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """Give a node with one unsecured listener."""
    with ServedNode(tmp_path_factory.mktemp("plain"), plain=True) as node:
        yield node


@pytest.fixture
def name() -> str:
    """Give a name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:10]}"
