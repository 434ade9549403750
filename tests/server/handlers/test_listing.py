"""The lists of APIs, against the folder they list."""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

from barnabas.server import handlers
from barnabas.server.handlers import BROKER, CONTROLLER, TELEMETRY, ZOOKEEPER, ZOOKEEPER_CONTROLLER
from barnabas.server.router import Router
from barnabas.wire.api_keys import API_KEYS


def test_every_module_of_the_folder_is_listed() -> None:
    modules = {m.name for m in iter_modules(handlers.__path__)}
    served = (*BROKER, *TELEMETRY, *CONTROLLER, *ZOOKEEPER, *ZOOKEEPER_CONTROLLER)
    assert modules == {listed.rpartition(":")[2] for listed in served}


@pytest.mark.parametrize(
    ("listed", "listener"),
    [
        (BROKER, "broker"),
        (TELEMETRY, "broker"),
        (CONTROLLER, "controller"),
        (ZOOKEEPER, "broker"),
        (ZOOKEEPER_CONTROLLER, "broker"),
    ],
)
def test_every_module_listed_handles_the_api_it_is_called_as(listed: tuple[str, ...], listener: str) -> None:
    router = Router(listed, listener=listener)
    for row in router.rows:
        handler = router.handler(row)
        assert handler is not None
        assert handler.row is row
    assert len(router.rows) == len(listed)


def test_an_api_that_is_not_listed_is_not_served() -> None:
    router = Router(("metadata",), listener="broker")
    assert [row.name for row in router.rows] == ["Metadata"]
    assert router.handler(API_KEYS[0]) is None
