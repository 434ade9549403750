"""Client quotas: their image and replay (KIP-546, KIP-612)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import VersionedRecord, replays
from barnabas.wire.records.client_quota_record import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class EntityPart(NamedTuple):
    """One side of an entity. name None: the default of all that have no quota of their own."""

    type: str
    name: str | None


QuotaEntity = tuple[EntityPart, ...]
"""Whose quota it is: parts sorted by type, at most one of each."""


def entity_of(parts: dict[str, str | None]) -> QuotaEntity:
    """Give the entity with these names by type."""
    return tuple(EntityPart(entity_type, parts[entity_type]) for entity_type in sorted(parts))


@dataclass(frozen=True, slots=True)
class ClientQuotasImage:
    """Quota values by entity and key; an entity without any is not there."""

    by_entity: Map[QuotaEntity, Map[str, float]] = field(default_factory=Map)

    def get(self, entity: QuotaEntity) -> Map[str, float]:
        """Give an entity's own values, empty when it has none."""
        values: Map[str, float] = self.by_entity.get(entity, Map())
        return values


def entity_in(r: ClientQuotaRecord) -> QuotaEntity:
    """Give the entity that a record is about."""
    return entity_of({part.entity_type: part.entity_name for part in r.entity})


@replays(ClientQuotaRecord)
def set_quota(image: ClientQuotasImage, r: ClientQuotaRecord) -> ClientQuotasImage:
    """Set or remove one value."""
    entity = entity_in(r)
    values = image.get(entity)
    if not r.remove:
        values = values.set(r.key, r.value)
    elif r.key in values:
        values = values.delete(r.key)
    if values:
        return ClientQuotasImage(image.by_entity.set(entity, values))
    return ClientQuotasImage(image.by_entity.delete(entity)) if entity in image.by_entity else image


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (set_quota,)


def snapshot_records(image: ClientQuotasImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image."""
    for entity, values in sorted(image.by_entity.items(), key=lambda item: repr(item[0])):
        for key, value in sorted(values.items()):
            yield quota_record(entity, key, value)


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> VersionedRecord:
    """Give the record that sets a value, or removes it when None."""
    record = ClientQuotaRecord(
        entity=[EntityData(entity_type=part.type, entity_name=part.name) for part in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )
    return VersionedRecord(record, 0)
