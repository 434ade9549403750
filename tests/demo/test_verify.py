"""The check itself can fail: each kind of loss is found."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from barnabas.demo import flights
from barnabas.demo.verify import Verdict, compare

COUNT = 40


@pytest.fixture
def arrived() -> pd.DataFrame:
    """Give what a lake without a fault holds, in another order."""
    source = flights.flights(COUNT)
    return source.assign(flight_id=source.index).sample(frac=1, random_state=1)


def test_all_is_well_in_any_order(arrived: pd.DataFrame) -> None:
    verdict = compare(arrived, flights.flights(COUNT))
    assert verdict == Verdict(sent=COUNT, arrived=COUNT, missing=0, repeated=0, different=0)
    assert verdict.exactly_once


def test_a_missing_flight_is_found(arrived: pd.DataFrame) -> None:
    verdict = compare(arrived[arrived["flight_id"] != 7], flights.flights(COUNT))
    assert verdict == Verdict(sent=COUNT, arrived=COUNT - 1, missing=1, repeated=0, different=0)
    assert not verdict.exactly_once


def test_a_repeated_flight_is_found(arrived: pd.DataFrame) -> None:
    twice = pd.concat([arrived, arrived[arrived["flight_id"] == 7]])
    assert compare(twice, flights.flights(COUNT)).repeated == 1


@pytest.mark.parametrize(("column", "value"), [("dep_delay", 1234), ("tailnum", "N0"), ("dep_delay", None)])
def test_a_changed_flight_is_found(arrived: pd.DataFrame, column: str, value: object) -> None:
    arrived.loc[arrived["flight_id"] == 7, column] = value
    assert compare(arrived, flights.flights(COUNT)).different == 1


def test_one_lost_and_one_repeated_do_not_cancel_out(arrived: pd.DataFrame) -> None:
    arrived.loc[arrived["flight_id"] == 7, "flight_id"] = 8
    verdict = compare(arrived, flights.flights(COUNT))
    assert (verdict.arrived, verdict.missing, verdict.repeated) == (COUNT, 1, 1)
    assert not verdict.exactly_once


def test_values_are_the_rows_as_json() -> None:
    first = json.loads(flights.values(1)[0])
    assert first["carrier"] == "UA"
    assert (first["dep_time"], first["time_hour"]) == (517, "2013-01-01T10:00:00Z")
    assert list(first) == list(flights.COLUMNS)
    assert json.loads(flights.values(1000)[838])["dep_delay"] is None  # a cancelled flight
    assert flights.values(10, 7) == flights.values(10)[7:]
    assert flights.values(10, 10) == flights.values(0) == []


def test_there_are_as_many_flights_as_the_readme_says() -> None:
    assert len(flights.flights()) == 336_776
