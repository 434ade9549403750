"""The server-side assignors of consumer groups (KIP-848), by the names that `group.consumer.assignors` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from barnabas.core.groups.assignors.ranges import assign_ranges
from barnabas.core.groups.assignors.spec import Assignment, GroupSpec, Topics
from barnabas.core.groups.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec, Topics], Assignment]]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
"""Each gives the target assignment, the same for equal input; PartitionAssignorError as the topics demand it."""
