"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions import describing
from barnabas.core.transactions.states import COMPLETE_COMMIT, DEAD, EMPTY, ONGOING, PREPARE_ABORT
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_transactions import TopicData
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from tests.core.transactions.driving import T0, T1, WALL_START_MS, Driver

E = ErrorCode


@pytest.fixture
def driver() -> Driver:
    made = Driver()
    made.given(DEAD, Producer(9, 0), name="dead")
    made.given(ONGOING, Producer(5, 3), name="long", partitions=(T1, T0))
    made.now_ms = 500
    made.given(ONGOING, Producer(6, 3), name="short")
    made.given(PREPARE_ABORT, Producer(7, 3), name="aborting")
    made.given(COMPLETE_COMMIT, Producer(8, 3), name="done")
    made.given(EMPTY, Producer(10, 0), name="fresh")
    made.now_ms = 1_000
    return made


def test_describing(driver: Driver) -> None:
    found = describing.describe(driver.shard.image, "long")
    assert (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch) == (0, "Ongoing", 5, 3)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, WALL_START_MS)
    assert found.topics == [TopicData(topic="t", partitions=[0, 1])]
    assert describing.describe(driver.shard.image, "aborting").transaction_state == "PrepareAbort"


@pytest.mark.parametrize(
    ("name", "error"),
    [("", E.INVALID_REQUEST), ("other", E.TRANSACTIONAL_ID_NOT_FOUND), ("dead", E.TRANSACTIONAL_ID_NOT_FOUND)],
)
def test_describing_what_is_not_there(driver: Driver, name: str, error: ErrorCode) -> None:
    found = describing.describe(driver.shard.image, name)
    assert (found.error_code, found.transactional_id, found.topics) == (error, name, [])


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, "aborting done fresh long short"),
        ({"state_filters": ["Ongoing"]}, "long short"),
        ({"state_filters": ["Ongoing", "Empty"]}, "fresh long short"),
        ({"state_filters": ["Dead"]}, ""),
        ({"state_filters": ["ongoing"]}, ""),
        ({"producer_id_filters": [5, 8, 99]}, "done long"),
        ({"duration_filter": 500}, "fresh long"),
        ({"duration_filter": 499}, "aborting done fresh long short"),
        ({"duration_filter": 0, "state_filters": ["Ongoing"]}, "long short"),
        ({"transactional_id_pattern": "s.*"}, "short"),
        ({"transactional_id_pattern": "ong"}, ""),
        ({"transactional_id_pattern": ".*on.*"}, "done long"),
        ({"transactional_id_pattern": ""}, "aborting done fresh long short"),
        ({"transactional_id_pattern": ".*on.*", "producer_id_filters": [8]}, "done"),
    ],
)
def test_listing(driver: Driver, filters: dict[str, Any], names: str) -> None:
    found = list(describing.listed(driver.shard.image, ListTransactionsRequest(**filters), driver.now.wall_ms))
    assert [state.transactional_id for state in found] == names.split()


def test_what_a_listing_says(driver: Driver) -> None:
    request = ListTransactionsRequest(producer_id_filters=[8], state_filters=["CompleteCommit", "Nonsense"])
    (state,) = describing.listed(driver.shard.image, request, driver.now.wall_ms)
    assert (state.transactional_id, state.producer_id, state.transaction_state) == ("done", 8, "CompleteCommit")
    assert describing.unknown_states(request) == ["Nonsense"]


def test_a_pattern_that_is_none(driver: Driver) -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    with pytest.raises(ApiError) as refused:
        list(describing.listed(driver.shard.image, request, 0))
    assert refused.value.code is E.INVALID_REGULAR_EXPRESSION
