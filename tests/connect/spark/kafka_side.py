"""The same records through Kafka's own converters and transformations and through ours, and what came of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from barnabas.connect.spark.converters import Role, make_converter, make_header_converter
from barnabas.connect.spark.failures import FAILURE
from barnabas.connect.spark.transforms.chain import Chain
from tests.conformance.java_oracle import JavaOracle
from tests.connect.spark.samples import Record

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
TRANSFORMS: Final = "org.apache.kafka.connect.transforms."
PREDICATES: Final = "org.apache.kafka.connect.transforms.predicates."
_COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, number int"
)
FAILED: Final = "failed"
Outcome = Any
"""`FAILED`, None for a dropped record, or a tuple of topic, key, value and headers."""


@dataclass(frozen=True)
class Format:
    """A converter: its class, and its configuration without a prefix."""

    type: str = JSON
    config: Mapping[str, str] = field(default_factory=dict)

    def properties(self, role: str) -> dict[str, str]:
        """Give the properties that ask for it."""
        prefix = f"{role}.converter"
        return {prefix: self.type, **{f"{prefix}.{key}": text for key, text in self.config.items()}}

    def question(self) -> dict[str, Any]:
        """Give it as Java is asked."""
        return {"type": self.type, "config": dict(self.config)}


WITH_SCHEMAS: Final = Format()
WITHOUT: Final = Format(JSON, {"schemas.enable": "false"})
TEXT: Final = Format(STRING)
SIMPLE: Final = Format("org.apache.kafka.connect.storage.SimpleHeaderConverter")


@dataclass(frozen=True)
class Link:
    """A transformation, its class without the package, and perhaps a predicate."""

    type: str
    config: Mapping[str, str] = field(default_factory=dict)
    predicate: str | None = None
    predicate_config: Mapping[str, str] = field(default_factory=dict)
    negate: bool = False

    def properties(self, alias: str) -> dict[str, str]:
        """Give its part of a connector's properties."""
        made = {f"transforms.{alias}.type": TRANSFORMS + self.type}
        made |= {f"transforms.{alias}.{key}": text for key, text in self.config.items()}
        if self.predicate is not None:
            made |= {
                f"transforms.{alias}.predicate": f"p{alias}",
                f"predicates.p{alias}.type": PREDICATES + self.predicate,
            }
            made |= {f"predicates.p{alias}.{key}": text for key, text in self.predicate_config.items()}
            made |= {f"transforms.{alias}.negate": "true"} if self.negate else {}
        return made

    def question(self) -> dict[str, Any]:
        """Give it as Java is asked."""
        made: dict[str, Any] = {"type": TRANSFORMS + self.type, "config": dict(self.config), "negate": self.negate}
        if self.predicate is not None:
            made["predicate"] = {"type": PREDICATES + self.predicate, "config": dict(self.predicate_config)}
        return made


@dataclass(frozen=True)
class Case:
    """Records, what they are transformed by, and the formats on both sides."""

    name: str
    records: Sequence[Record]
    links: Sequence[Link] = ()
    source: Format = WITH_SCHEMAS
    target: Format = WITH_SCHEMAS
    key: Format = WITH_SCHEMAS
    headers_in: Format = SIMPLE
    headers_out: Format = SIMPLE


def java_outcomes(oracle: JavaOracle, case: Case) -> list[Outcome]:
    """Give what Kafka's classes make of a case."""
    question = {
        "key_in": case.key.question(),
        "value_in": case.source.question(),
        "key_out": case.key.question(),
        "value_out": case.target.question(),
        "header_in": case.headers_in.question(),
        "header_out": case.headers_out.question(),
        "links": [link.question() for link in case.links],
        "records": [record.question() for record in case.records],
    }
    answer = json.loads(oracle.ask(json.dumps(question)))
    assert isinstance(answer, list), f"{case.name}: {answer}"
    return [_java_outcome(case, one) for one in answer]


def our_outcomes(
    spark: SparkSession, cases: Sequence[Case], *, together: int = 6, taken: dict[str, DataFrame] | None = None
) -> dict[str, list[Outcome]]:
    """Give what ours make of cases, of several in one Spark job.

    taken: records that came through their converters already, kept for the next cases with them.
    """
    taken = {} if taken is None else taken
    # Plans of hundreds of expressions over six records: compiling them would take most of the time.
    with _interpreted(spark):
        return _our_outcomes(spark, cases, together, taken)


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[None]:
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def _our_outcomes(
    spark: SparkSession, cases: Sequence[Case], together: int, taken: dict[str, DataFrame]
) -> dict[str, list[Outcome]]:
    made = [(case, _frame(spark, case, taken)) for case in cases]
    outcomes: dict[str, list[Outcome]] = {}
    for start in range(0, len(made), together):
        part = made[start : start + together]
        whole = reduce(DataFrame.union, [frame for _, frame in part])
        for case, _ in part:
            outcomes[case.name] = [None] * len(case.records)
        by_name = {case.name: case for case, _ in part}
        for row in whole.collect():
            case = by_name[row["case"]]
            outcomes[case.name][row["number"]] = _our_outcome(case, row)
    for frame in taken.values():
        frame.unpersist()
    return outcomes


def _frame(spark: SparkSession, case: Case, taken: dict[str, DataFrame]) -> DataFrame:
    formats = (case.key.properties(Role.KEY), case.source.properties(Role.VALUE), case.headers_in.properties("header"))
    origin = (id(case.records), *formats)
    frame = taken.get(repr(origin))
    if frame is None:
        rows = [record.row(number) for number, record in enumerate(case.records)]
        frame = spark.createDataFrame(rows, _COLUMNS)
        for role, format_ in ((Role.KEY, case.key), (Role.VALUE, case.source)):
            frame = make_converter(format_.properties(role), role).to_connect(frame)
        frame = taken[repr(origin)] = (
            make_header_converter(case.headers_in.properties("header")).to_connect(frame).cache()
        )
    aliases = [f"t{number}" for number in range(len(case.links))]
    properties = {"transforms": ",".join(aliases)}
    for alias, link in zip(aliases, case.links, strict=True):
        properties |= link.properties(alias)
    properties["predicates"] = ",".join(
        f"p{alias}" for alias, link in zip(aliases, case.links, strict=True) if link.predicate is not None
    )
    frame = Chain.of(properties).apply(frame)
    for role, format_ in ((Role.KEY, case.key), (Role.VALUE, case.target)):
        frame = make_converter(format_.properties(role), role).from_connect(frame)
    frame = make_header_converter(case.headers_out.properties("header")).from_connect(frame)
    return frame.select(lit(case.name).alias("case"), "number", "topic", "key", "value", "headers", FAILURE)


def _java_outcome(case: Case, answer: Mapping[str, Any]) -> Outcome:
    if "failed" in answer:
        return FAILED
    if "dropped" in answer:
        return None
    headers = [(key, _shown(case.headers_out, _decoded(value))) for key, value in answer["headers"]]
    return (
        answer["topic"],
        _shown(case.key, _decoded(answer["key"])),
        _shown(case.target, _decoded(answer["value"])),
        [(key, value) for key, value in headers],
    )


def _our_outcome(case: Case, row: Any) -> Outcome:
    if row[FAILURE] is not None:
        return FAILED
    headers = [(header["key"], header["value"]) for header in row["headers"] or []]
    shown = [(key, _shown(case.headers_out, value)) for key, value in headers]
    return row["topic"], _shown(case.key, row["key"]), _shown(case.target, row["value"]), shown


def _shown(format_: Format, data: bytes | bytearray | None) -> Any:
    if data is None or format_.type != JSON:
        return None if data is None else bytes(data)
    value = json.loads(data)
    if format_.config.get("schemas.enable", "true") == "true" and value["payload"] is None:
        # A column that is null is a tombstone with us, whatever type it has.
        return None
    return value


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
