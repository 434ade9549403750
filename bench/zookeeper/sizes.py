"""How much is measured in ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ZooKeeperSizes:
    """How much is done. repeats: of each run and each failure; znodes: that the tool finds; zk_partitions: of topics of
    ten, with two copies."""

    repeats: int
    znodes: int
    zk_partitions: int

    @property
    def counts(self) -> dict[str, int]:
        """Give what the rows' titles name."""
        return {name: count for name, count in asdict(self).items() if name != "repeats"}
