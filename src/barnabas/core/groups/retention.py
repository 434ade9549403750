"""What retention takes away: expired offsets, and groups that nobody needs; so much at a time that nobody waits.

A round begins every `offsets.retention.check.interval.ms` and looks at each group that there is then. What is left of
it is soft: whoever takes the partition over begins a round of its own.
"""

from __future__ import annotations

from typing import Final

from immutables import Map

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.step import Now
from barnabas.core.groups import offset_requests
from barnabas.core.groups.actions import Action, CleanUp
from barnabas.core.groups.config import GroupConfig
from barnabas.core.groups.image import ShardImage
from barnabas.core.groups.tally import Tally
from barnabas.wire.coordinator_records import CoordinatorRecord

AT_ONCE: Final = 100
"""How many groups and offsets a step looks at, and then some: it never leaves a group halfway."""
PAUSE_MS: Final = 10
"""Until the next step of a round, in which requests are served."""
_KEY: Final = ("clean-up",)


class Retention:
    """The rounds of a shard over its groups."""

    def __init__(self, config: GroupConfig, deadlines: Deadlines[Action], tally: Tally) -> None:
        self._config = config
        self._deadlines = deadlines
        self._tally = tally
        self._left: list[str] = []  # whom the round has yet to look at, the next one last
        self._began_ms = 0

    def begin(self, now: Now) -> None:
        """Plan the first round."""
        self._left = []
        self._plan(now.monotonic_ms + self._config.offsets_retention_check_interval_ms)

    def clean_up(self, image: ShardImage, now: Now) -> tuple[list[CoordinatorRecord], list[str]]:
        """Look at the next groups, and plan what comes then; gives the records, and which groups go by them."""
        if not self._left:
            self._began_ms = now.monotonic_ms
            self._left = sorted((*image.groups, *image.consumers), reverse=True)
        made: list[CoordinatorRecord] = []
        gone: list[str] = []
        looked_at = 0
        while self._left and looked_at < AT_ONCE:
            group_id = self._left.pop()
            looked_at += 1 + sum(map(len, image.offsets.by_group.get(group_id, _NO_OFFSETS).values()))
            group = image.groups.get(group_id) or image.consumers.get(group_id)
            if group is None:
                continue  # it went after the round began
            tombstones, all_gone = offset_requests.expired(self._config, image, group, now.wall_ms)
            made += tombstones
            self._tally.offsets_expired += len(tombstones)
            if all_gone and offset_requests.is_empty(group):
                made += offset_requests.tombstones(group)
                gone.append(group_id)
        soon_ms = now.monotonic_ms + PAUSE_MS
        next_round_ms = self._began_ms + self._config.offsets_retention_check_interval_ms
        self._plan(soon_ms if self._left else max(soon_ms, next_round_ms))
        return made, gone

    def _plan(self, at_ms: int) -> None:
        self._deadlines.schedule(_KEY, at_ms, CleanUp())


_NO_OFFSETS: Final[Map[str, Map[int, object]]] = Map()
