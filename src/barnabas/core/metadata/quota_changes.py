"""What AlterClientQuotas decides (KIP-546, KIP-612)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from barnabas.core.metadata.limits import check_batch
from barnabas.core.metadata.quotas import (
    CLIENT_ID,
    IP,
    USER,
    ClientQuotasImage,
    QuotaEntity,
    entity_of,
    quota_record,
)
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.wire.errors import ApiError, ErrorCode


class QuotaKey(NamedTuple):
    """What can be limited. largest: the highest value; whole: no fractions."""

    largest: float
    whole: bool


USER_AND_CLIENT_KEYS: Final[Mapping[str, QuotaKey]] = {
    "producer_byte_rate": QuotaKey(2.0**63, whole=True),
    "consumer_byte_rate": QuotaKey(2.0**63, whole=True),
    "request_percentage": QuotaKey(float("inf"), whole=False),
    "controller_mutation_rate": QuotaKey(float("inf"), whole=False),
}
"""Limits of users and client ids: bytes/s, bytes/s, % of a thread's time, partitions/s."""
IP_KEYS: Final[Mapping[str, QuotaKey]] = {"connection_creation_rate": QuotaKey(2.0**31 - 1, whole=True)}
"""Limits of addresses: connections/s."""


class Alteration(NamedTuple):
    """A change asked for. entity: (type, name) pairs as sent; ops: (key, new value or None to remove) as sent."""

    entity: tuple[tuple[str, str | None], ...]
    ops: tuple[tuple[str, float | None], ...]


def alter_client_quotas(
    image: ClientQuotasImage,
    alterations: Sequence[Alteration],
    is_host: Callable[[str], bool],
    *,
    validate_only: bool = False,
) -> Decision[list[ApiError | None]]:
    """Set and remove values; an entity changes whole or not at all. The answer follows the order of the request.

    is_host: says whether a name that is no IP address is a host that resolves.
    """
    records: list[VersionedRecord] = []
    results: list[ApiError | None] = []
    seen: set[tuple[tuple[str, str | None], ...]] = set()
    for alteration in alterations:
        entity = tuple(sorted(alteration.entity, key=repr))
        try:
            if entity in seen:
                raise _invalid("the request names this entity twice: send all its changes together")
            seen.add(entity)
            records += _altered(image, alteration, is_host)
            results.append(None)
        except ApiError as e:
            results.append(e)
    written = check_batch(records)
    return Decision(() if validate_only else written, results)


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)


def _altered(image: ClientQuotasImage, alteration: Alteration, is_host: Callable[[str], bool]) -> list[VersionedRecord]:
    entity = _checked_entity(alteration.entity)
    allowed = _allowed_keys(entity, is_host)
    keys = [key for key, _ in alteration.ops]
    if len(set(keys)) != len(keys):
        raise _invalid("the request changes a quota key twice for the same entity")
    current = image.get(entity)
    records = []
    for key, value in alteration.ops:
        if value is None:
            if key in current:
                records.append(quota_record(entity, key, None))
            continue
        _check_value(allowed, key, value)
        if current.get(key) != value:
            records.append(quota_record(entity, key, value))
    return records


def _checked_entity(sent: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    parts: dict[str, str | None] = {}
    for entity_type, name in sent:
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"{entity_type!r} has no quotas: want {USER}, {CLIENT_ID} or {IP}")
        if entity_type in parts:
            raise _invalid(f"the entity has {entity_type} twice")
        if name == "":
            raise _invalid(f"the name of a {entity_type} cannot be empty; null means the default of all")
        parts[entity_type] = name
    if not parts:
        raise _invalid(f"the entity is empty: want {USER}, {CLIENT_ID}, both, or {IP}")
    return entity_of(parts)


def _allowed_keys(entity: QuotaEntity, is_host: Callable[[str], bool]) -> Mapping[str, QuotaKey]:
    parts = dict(entity)
    if IP not in parts:
        return USER_AND_CLIENT_KEYS
    if len(parts) > 1:
        raise _invalid(f"{IP} cannot be combined with {USER} or {CLIENT_ID}")
    name = parts[IP]
    if name is not None and not _is_address(name) and not is_host(name):
        raise _invalid(f"{name!r} is neither an IP address nor a host that resolves")
    return IP_KEYS


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _check_value(allowed: Mapping[str, QuotaKey], key: str, value: float) -> None:
    known = allowed.get(key)
    if known is None:
        raise _invalid(f"{key!r} is not a quota of this kind of entity: want one of {', '.join(allowed)}")
    if not value > 0:
        raise _invalid(f"{key} must be above 0, not {value}; remove the quota to have no limit")
    if value > known.largest:
        raise _invalid(f"{key} can be at most {known.largest:.0f}, not {value}")
    if known.whole and abs(value % 1.0) > 1e-6:
        raise _invalid(f"{key} must be a whole number, not {value}")
