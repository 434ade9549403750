"""What a chain of transformations refuses, and how it says so."""

from __future__ import annotations

import pytest

from barnabas.connect.spark.transforms.chain import Chain
from barnabas.connect.spark.transforms.paths import FieldPath
from barnabas.connect.spark.transforms.registry import class_names
from barnabas.model.config import ConfigError

_K = "org.apache.kafka.connect.transforms."


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"transforms": "a"}, "transforms.a.type is not set"),
        ({"transforms": "a,a"}, "Duplicate alias"),
        ({"transforms": "a", "transforms.a.type": "Nonsense"}, "no transformation 'Nonsense'"),
        ({"transforms": "a", "transforms.a.type": _K + "Cast"}, r"want .*Cast\$Key or .*Cast\$Value"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value"}, "transforms.a: spec is not set"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "x:bytes"}, "casting to BYTES"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "x:y"}, "Invalid type found"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "int8,a:int8"}, "nothing else"),
        ({"transforms": "a", "transforms.a.type": "InsertField$Key"}, "No field insertion configured"),
        (
            {"transforms": "a", "transforms.a.type": "InsertField$Key", "transforms.a.static.field": "f"},
            "No value specified for the static field",
        ),
        ({"transforms": "a", "transforms.a.type": "MaskField$Value", "transforms.a.fields": ""}, "at least one"),
        ({"transforms": "a", "transforms.a.type": "MaskField$Value", "transforms.a.fields": "x,x"}, "each name once"),
        (
            {"transforms": "a", "transforms.a.type": "ReplaceField$Value", "transforms.a.renames": "x"},
            "Invalid rename mapping: x",
        ),
        (
            {"transforms": "a", "transforms.a.type": "TimestampConverter$Value", "transforms.a.target.type": "string"},
            "requires it to be set",
        ),
        (
            {"transforms": "a", "transforms.a.type": "TimestampRouter", "transforms.a.timestamp.format": "YYYY"},
            "'Y'",
        ),
        (
            {
                "transforms": "a", "transforms.a.type": "RegexRouter", "transforms.a.regex": "(",
                "transforms.a.replacement": "",
            },
            "Invalid regex",
        ),
        (
            {
                "transforms": "a", "transforms.a.type": "HeaderFrom$Value", "transforms.a.fields": "x,y",
                "transforms.a.headers": "z", "transforms.a.operation": "copy",
            },
            "same number of elements",
        ),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negate": "true"}, "predicate to be negated"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, "no predicate 'p'"),
        ({"predicates": "p", "predicates.p.type": "Maybe"}, "no predicate 'Maybe'"),
        ({"predicates": "p", "predicates.p.type": "TopicNameMatches"}, "predicates.p: pattern is not set"),
    ],
)  # fmt: skip
def test_a_wrong_chain_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Chain.of(properties)


def test_without_transformations_there_is_no_chain() -> None:
    assert len(Chain.of({"name": "x"})) == 0


def test_all_of_kafkas_transformations_are_there() -> None:
    assert len(class_names()) == 26


@pytest.mark.parametrize(
    ("text", "steps"),
    [("a", ("a",)), ("a.b", ("a", "b")), ("`a.b`.c", ("a.b", "c")), ("a.`b.c`", ("a", "b.c")), ("a`b", ("a`b",))],
)
def test_a_path_is_taken_apart(text: str, steps: tuple[str, ...]) -> None:
    assert FieldPath.parse(text).steps == steps


def test_a_path_with_an_open_backtick_is_refused() -> None:
    with pytest.raises(ConfigError, match="never closed"):
        FieldPath.parse("`a.b")
