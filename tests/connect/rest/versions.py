"""Requests that ask for versions of plug-ins."""

from __future__ import annotations

from typing import Any, Final

from tests.connect.rest.sides import VERSION, Step

_SINK: Final = {"connector.class": "FileStreamSink", "name": "x", "topics": "lines", "file": "f"}
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_TRANSFORM: Final = {
    "transforms": "t",
    "transforms.t.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.t.spec": "int8",
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.p.pattern": "a.*",
}
WANTED: Final = (
    "latest", VERSION, f"[{VERSION}]", f" {VERSION} ", f"[{VERSION},)", "[0.1,99)", "(,0.5],[0.9,9]",
    f"({VERSION},)", "(,0.5]", "0.1", "", "LATEST",
    "[1.0", "[2,1]", "(1.0)", "[1],2", "nonsense",
)  # fmt: skip
"""What both have, what neither has, what is no range."""
_DEFINED: Final = "/connector-plugins/{}/config?version={}"


def validated(setting: str, wanted: str) -> dict[str, Any]:
    """Give a configuration whose parts are all named, one with a version."""
    return {**_SINK, **_TRANSFORM, "key.converter": _JSON, "value.converter": _JSON, "header.converter": _JSON} | {
        setting: wanted
    }


SETTINGS: Final = tuple(
    f"{part}plugin.version"
    for part in ("connector.", "key.converter.", "header.converter.", "transforms.t.", "predicates.p.")
)


def validations(ignored: tuple[str, ...]) -> list[Step]:
    """Give a validation of each setting with each range."""
    path = "/connector-plugins/FileStreamSink/config/validate"
    return [Step("PUT", path, validated(setting, wanted), ignored=ignored) for setting in SETTINGS for wanted in WANTED]


def definitions() -> list[Step]:
    """Give a request for the settings of a plug-in in each range."""
    return [Step("GET", _DEFINED.format(plugin, wanted)) for plugin in ("FileStreamSink", _JSON) for wanted in WANTED]
