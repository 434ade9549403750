"""What the lake tells: the mean delay at departure by airline and hour, as a table and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd
from rich.table import Table
from rich.text import Text

HOUR_GROUPS: Final = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 23))
"""The hours of the table's columns, first and last; nobody leaves New York between one and four."""
_STEPS: Final = ((0.0, "green"), (10.0, "yellow"), (20.0, "dark_orange"), (float("inf"), "red"))


def delays(lake: pd.DataFrame) -> pd.DataFrame:
    """Give airline, hour, number of flights that left, and their mean delay at departure in minutes."""
    left = lake[lake["dep_delay"].notna()]
    by_hour = left.groupby(["airline", "hour"], as_index=False)["dep_delay"]
    return by_hour.agg(flights="count", delay="mean")


def table(delays: pd.DataFrame) -> Table:
    """Give the table. delays: airline, hour, flights, delay (minutes), a row for each airline and hour."""
    result = Table(title="Mean delay at departure in minutes, New York City 2013", title_justify="left")
    result.add_column("airline", no_wrap=True)
    result.add_column("flights", justify="right")
    for first, last in HOUR_GROUPS:
        result.add_column(f"{first}-{last} h", justify="right")
    result.add_column("all day", justify="right")
    order = delays.groupby("airline")["flights"].sum().sort_values(ascending=False, kind="stable")
    for airline, flights in order.items():
        rows = delays[delays["airline"] == airline]
        cells = [_cell(_mean(rows[rows["hour"].between(first, last)])) for first, last in HOUR_GROUPS]
        result.add_row(_short(str(airline)), f"{flights:,}", *cells, _cell(_mean(rows)))
    result.add_section()
    totals = [_cell(_mean(delays[delays["hour"].between(first, last)])) for first, last in HOUR_GROUPS]
    result.add_row("all airlines", f"{order.sum():,}", *totals, _cell(_mean(delays)))
    return result


def picture(delays: pd.DataFrame, path: Path) -> None:
    """Write the picture: a row an airline, a column an hour, the colour the delay."""
    from matplotlib.figure import Figure  # a second to import, and only needed at the end

    grid = delays.pivot_table(index="airline", columns="hour", values="delay")
    order = delays.groupby("airline")["flights"].sum().sort_values(ascending=False, kind="stable")
    grid = grid.loc[list(order.index)]
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(grid.to_numpy(), aspect="auto", cmap="RdYlGn_r", vmin=-5, vmax=45)
    axes.set_xticks(range(len(grid.columns)), [f"{hour}" for hour in grid.columns])
    axes.set_yticks(range(len(grid.index)), [f"{name} ({order[name]:,})" for name in grid.index])
    axes.set_xlabel("scheduled hour of departure")
    axes.set_title("Flights from New York City in 2013: mean delay at departure, by airline (flights) and hour")
    for row, line in enumerate(grid.to_numpy()):
        for column, delay in enumerate(line):
            if delay == delay:  # not missing
                axes.text(column, row, str(round(delay)), ha="center", va="center", fontsize=8)
    figure.colorbar(image, ax=axes, label="minutes")
    figure.savefig(path, dpi=130)


def _short(airline: str) -> str:
    """Give the name without what every airline is called, so that the table fits 80 columns."""
    words = [word for word in airline.split() if word not in ("Inc.", "Co.", "Corporation", "Airlines")]
    return " ".join(words)


def _mean(rows: pd.DataFrame) -> float | None:
    flights = int(rows["flights"].sum())
    return float((rows["delay"] * rows["flights"]).sum() / flights) if flights else None


def _cell(delay: float | None) -> Text:
    if delay is None:
        return Text("-", style="dim")
    style = next(style for limit, style in _STEPS if delay <= limit)
    return Text(f"{delay:.1f}", style=style)
