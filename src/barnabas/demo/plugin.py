"""Makes the demonstration's connector known to its own workers, as an installed package would, and to no others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CONNECTOR_CLASS: Final = "FlightsToLake"
_NAME: Final = "flights_to_lake"
_FILES: Final = {
    "METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: 1.0\n",
    "entry_points.txt": f"[barnabas.connectors]\n{CONNECTOR_CLASS} = barnabas.demo.connector:{CONNECTOR_CLASS}\n",
}


def install(folder: Path) -> None:
    """Write what pip writes about a package with this one entry point; `folder` is then to be on Python's path."""
    information = folder / f"{_NAME}-1.0.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (information / name).write_text(text, encoding="utf-8")
