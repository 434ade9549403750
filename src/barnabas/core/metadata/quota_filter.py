"""Which client quotas a DescribeClientQuotas request asks for (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from immutables import Map

from barnabas.core.metadata.quotas import CLIENT_ID, IP, USER, ClientQuotasImage, QuotaEntity
from barnabas.wire.errors import ApiError, ErrorCode


class MatchType(IntEnum):
    """How a component is compared; the numbers are the wire's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Component(NamedTuple):
    """What one entity type must be. match: the name for EXACT, else None."""

    entity_type: str
    match_type: int
    match: str | None


_KNOWN: Final = (USER, CLIENT_ID, IP)


class QuotaFilter:
    """A checked filter; ApiError, Kafka's, for one that contradicts itself."""

    def __init__(self, components: Iterable[Component], strict: bool) -> None:
        self._strict = strict
        self._exact: dict[str, str | None] = {}
        self._any: set[str] = set()
        for component in components:
            self._add(component)
        types = self._exact.keys() | self._any
        if IP in types and len(types) > 1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "a filter asks for addresses, or for users and client ids: the two have no quotas in common",
            )

    def _add(self, component: Component) -> None:
        name, match_type, match = component
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a filter names a kind of entity: user, client-id or ip")
        if name in self._exact or name in self._any:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the filter has {name} twice")
        if name not in _KNOWN:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{name} is no kind of entity: want user, client-id or ip")
        if match_type not in list(MatchType):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"match type {match_type}: want 0, exact; 1, default; or 2, any")
        if (match_type == MatchType.EXACT) != (match is not None):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"a component of match type {MatchType(match_type).name} has the match {match!r}: a name is wanted "
                "for EXACT, and none for the others",
            )
        if match_type == MatchType.ANY:
            self._any.add(name)
        else:
            self._exact[name] = match

    def select(self, image: ClientQuotasImage) -> Iterator[tuple[QuotaEntity, Map[str, float]]]:
        """Give the entities that match, with their quotas."""
        for entity, values in image.by_entity.items():
            if self._matches(dict(entity)):
                yield entity, values

    def _matches(self, entity: dict[str, str | None]) -> bool:
        if self._strict and len(entity) != len(self._exact) + len(self._any):
            return False
        if not self._any <= entity.keys():
            return False
        return all(name in entity and entity[name] == match for name, match in self._exact.items())
