"""What the entity flags of `barnabas configs` name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.cli.errors import CliError
from barnabas.client.admin.configs import ConfigResourceType

RESOURCES: Final = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
    "groups": ConfigResourceType.GROUP,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
}
QUOTAS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
TYPES: Final = (*RESOURCES, *QUOTAS)


class Entity(NamedTuple):
    """Something with settings. name: None when none was given, "" for the default of the type."""

    type: str
    name: str | None

    def __str__(self) -> str:
        singular = self.type.removesuffix("s") if self.type != "client-metrics" else self.type
        if self.name is None:
            return f"all {self.type}"
        return f"the default {singular}" if self.name == "" else f"{singular} {self.name}"


def entities_of(
    types: Sequence[str],
    names: Sequence[str],
    defaults: int,
    *,
    default_first: bool,
    short: Sequence[tuple[str, str | None, bool]],
) -> list[Entity]:
    """Pair types with names in their order, and add the short forms; CliError when that cannot be meant."""
    for wrong in (t for t in types if t not in TYPES):
        raise CliError(f"--entity-type {wrong!r}: want one of {', '.join(TYPES)}.")
    given = [*names]
    given[0 if default_first else len(given) : 0 if default_first else len(given)] = [""] * defaults
    if len(given) > len(types):
        raise CliError("There are more entity names or defaults than entity types.")
    entities = [Entity(t, given[i] if i < len(given) else None) for i, t in enumerate(types)]
    for kind, name, is_default in short:
        if name is not None:
            entities.append(Entity(kind, name))
        elif is_default:
            entities.append(Entity(kind, ""))
    if not entities:
        raise CliError("Say whose settings, for example: --topic flights, or --entity-type brokers --entity-name 1.")
    _check_together([e.type for e in entities])
    return entities


def _check_together(types: list[str]) -> None:
    if len(set(types)) != len(types) or (len(types) > 1 and set(types) != {"users", "clients"}):
        raise CliError("Only users and clients go together; everything else stands alone.")
