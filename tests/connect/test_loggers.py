"""Levels of loggers that users set while a worker runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.connect.loggers import ROOT, Loggers
from tests.connect.clock import SetClock


@pytest.fixture
def loggers() -> Iterator[Loggers]:
    """Give the process's loggers, and have them as they were in the end."""
    for name in ("py4j.java_gateway", "of.a.test.below"):
        logging.getLogger(name)
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = {each: each.level for each in (logging.root, *known)}
    yield Loggers(SetClock())
    for each, level in before.items():
        each.setLevel(level)


@pytest.mark.parametrize("namespace", [ROOT, "py4j", "py4j.java_gateway"])
def test_what_tells_every_call_into_spark_with_its_secrets_is_never_heard(loggers: Loggers, namespace: str) -> None:
    loggers.set_level(namespace, "DEBUG")
    assert loggers.levels()["py4j.java_gateway"].level == "WARN"
    assert not logging.getLogger("py4j.java_gateway").isEnabledFor(logging.INFO)
    loggers.set_level(namespace, "ERROR")
    assert loggers.levels()["py4j.java_gateway"].level == "ERROR"


def test_a_level_holds_for_the_loggers_below(loggers: Loggers) -> None:
    assert set(loggers.set_level("of.a.test", "debug")) >= {"of.a.test", "of.a.test.below"}
    assert loggers.levels()["of.a.test.below"].level == "DEBUG"
