"""Java's system properties as Kafka's scripts hand them to a JVM, so that what operators export keeps its meaning."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

_QUOTED: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Read by the JVM itself, which knows quotes."""
_SPLIT: Final = ("KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_JMX_OPTS", "KAFKA_OPTS")
"""Put on the command line by the scripts, in this order, split where there is space."""


def system_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Give what `-Dname=value` in the environment's variables says; the last one counts, as in a JVM."""
    words: list[str] = []
    for variable in _QUOTED:
        words += shlex.split(environment.get(variable, ""))
    for variable in _SPLIT:
        words += environment.get(variable, "").split()
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.removeprefix("-D").partition("=")
        if word.startswith("-D") and name:
            found[name] = value
    return found
