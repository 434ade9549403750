"""The transformations of a connector, one after the other, each for the records that its predicate picks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import expr

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.data.merging import IncompatibleSchemasError, merge
from barnabas.connect.spark.data.projecting import projected
from barnabas.connect.spark.data.records import VALUE, Records, noted
from barnabas.connect.spark.data.schema import Schema
from barnabas.connect.spark.data.spark_types import ddl
from barnabas.connect.spark.data.sql import name
from barnabas.connect.spark.failures import FAILURE, Step, failure
from barnabas.connect.spark.predicates import Predicate, RecordIsTombstone
from barnabas.connect.spark.predicates import predicates as known_predicates
from barnabas.model.config import ConfigError, parse_list

from .base import Transformation
from .fields import to_variant
from .registry import make_transformation

_ACTIVE: Final = "connect_active"
_PROBLEM: Final = "connect_problem"


@dataclass(frozen=True, slots=True)
class _Link:
    alias: str
    transformation: Transformation
    predicate: Predicate | None
    negate: bool

    def picks(self, frame: DataFrame) -> str | None:
        """Give SQL of whether a record is transformed; None if every one is."""
        if self.predicate is None:
            return None
        test = self.predicate.test(frame)
        return f"NOT ({test})" if self.negate else test

    @property
    def leaves_nulls_only(self) -> bool:
        """Say whether the records that are not transformed have no value."""
        return isinstance(self.predicate, RecordIsTombstone) and self.negate


class Chain:
    """What `transforms` and `predicates` of a connector's properties come to."""

    def __init__(self, links: tuple[_Link, ...]) -> None:
        self._links = links

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Chain:
        """Give the chain of a connector's properties, empty without `transforms`; ConfigError names what is wrong."""
        predicates = {alias: _predicate(properties, alias) for alias in _aliases(properties, "predicates")}
        return cls(tuple(_link(properties, alias, predicates) for alias in _aliases(properties, "transforms")))

    def __len__(self) -> int:
        return len(self._links)

    def apply(self, frame: DataFrame) -> DataFrame:
        """Give the transformed frame; a record that could not be has its failure noted and no value of a new type.

        ConnectError when a predicate would leave one column with values of two types that do not go together.
        """
        for part in {link.transformation.part for link in self._links} - set(frame.columns):
            # A source that gives no keys gives null ones.
            frame = frame.withColumn(part, expr("cast(NULL as binary)"))
        records = Records.of(frame)
        for link in self._links:
            records = _applied(records, link)
        return records.frame


def _applied(records: Records, link: _Link) -> Records:
    change = link.transformation.change(records)
    picks = link.picks(records.frame)
    well = f"{name(FAILURE)} IS NULL"
    active = well if picks is None else f"{well} AND {picks}"
    if change.kept is not None:
        return records.where(f"NOT ({active}) OR ({change.kept})")
    frame = records.frame.withColumn(_ACTIVE, expr(active))
    if change.problem is not None:
        frame = frame.withColumn(_PROBLEM, expr(f"CASE WHEN {_ACTIVE} THEN {change.problem} END"))
    changed = f"{_ACTIVE} AND {_PROBLEM} IS NULL" if change.problem is not None else _ACTIVE
    columns: dict[str, Column] = {}
    schemas: dict[str, Schema | None] = dict(records.schemas)
    for part, (sql, schema) in change.columns.items():
        made, schemas[part] = _column(records, link, part, sql, schema, changed)
        columns[part] = noted(expr(made), part, schemas[part])
    for other, sql in change.others.items():
        old = name(other) if other in records.frame.columns else "NULL"
        columns[other] = expr(f"CASE WHEN {changed} THEN {sql} ELSE {old} END")
    if change.problem is not None:
        step = Step("TRANSFORMATION", _class_name(link.transformation))
        columns[FAILURE] = expr(failure(step, _PROBLEM))
    return Records(frame.withColumns(columns).drop(_ACTIVE, _PROBLEM), schemas)


def _column(
    records: Records, link: _Link, part: str, sql: str, schema: Schema | None, changed: str
) -> tuple[str, Schema | None]:
    """Give SQL of the column for records that are transformed and such that are not, and its schema."""
    if part not in records.schemas:
        return f"CASE WHEN {changed} THEN {sql} END", schema
    old = records.schemas[part]
    if ddl(old) == ddl(schema):
        return f"CASE WHEN {changed} THEN {sql} ELSE {name(part)} END", schema
    if link.predicate is None or (part == VALUE and link.leaves_nulls_only):
        return f"CASE WHEN {changed} THEN {sql} END", schema
    # A record that failed keeps nothing; one that was not picked keeps what it has, as far as one column holds both.
    if old is None or schema is None:
        both = f"CASE WHEN {changed} THEN {to_variant(schema, sql)} ELSE {to_variant(old, name(part))} END"
        return both, None
    try:
        wide = merge(schema, old)
    except IncompatibleSchemasError as error:
        raise ConnectError(
            f"transforms.{link.alias}: its predicate leaves the {part} of some records as it is, and one column cannot "
            f"hold {error}"
        ) from error
    kept = projected(name(part), old, wide)
    return f"CASE WHEN {changed} THEN {projected(f'({sql})', schema, wide)} ELSE {kept} END", wide


def _class_name(transformation: Transformation) -> str:
    variant = {"key": "$Key", "value": "$Value"}[transformation.part] if transformation.HAS_PARTS else ""
    return transformation.CLASS_NAME + variant


def _aliases(properties: Mapping[str, str], key: str) -> list[str]:
    aliases = parse_list(properties.get(key, ""))
    if len(set(aliases)) != len(aliases):
        raise ConfigError(f"{key}: Duplicate alias provided.")
    if not all(aliases):
        raise ConfigError(f"{key}: an alias is empty")
    return aliases


def _own(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: text for key, text in properties.items() if key.startswith(prefix)}


def _link(properties: Mapping[str, str], alias: str, predicates: Mapping[str, Predicate]) -> _Link:
    prefix = f"transforms.{alias}."
    own = _own(properties, prefix)
    named = own.pop("type", None)
    if named is None:
        raise ConfigError(f"{prefix}type is not set, and has no default")
    chosen = own.pop("predicate", None)
    negate = own.pop("negate", None)
    if negate is not None and negate.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{prefix}negate: {negate!r} is not true or false")
    if negate is not None and chosen is None:
        raise ConfigError(f"there is no config '{prefix}predicate' defining a predicate to be negated")
    if chosen is not None and chosen.strip() not in predicates:
        raise ConfigError(f"{prefix}predicate: there is no predicate {chosen!r} in `predicates`")
    try:
        transformation = make_transformation(named, own)
    except ConfigError as error:
        raise ConfigError(f"{prefix.removesuffix('.')}: {error}") from error
    picked = predicates[chosen.strip()] if chosen is not None else None
    return _Link(alias, transformation, picked, (negate or "").strip().lower() == "true")


def _predicate(properties: Mapping[str, str], alias: str) -> Predicate:
    prefix = f"predicates.{alias}."
    own = _own(properties, prefix)
    named = own.pop("type", "").strip()
    if not named:
        raise ConfigError(f"{prefix}type is not set, and has no default")
    for one in known_predicates():
        if named in (one.CLASS_NAME, one.CLASS_NAME.rpartition(".")[2]):
            try:
                return one(own)
            except ConfigError as error:
                raise ConfigError(f"{prefix.removesuffix('.')}: {error}") from error
    raise ConfigError(f"{prefix}type: there is no predicate {named!r}; there are "
                      f"{', '.join(one.CLASS_NAME for one in known_predicates())}")  # fmt: skip
