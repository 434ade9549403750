"""Transformations of where a record goes: RegexRouter, TimestampRouter, and Filter, with which it goes nowhere."""

from __future__ import annotations

import re
from typing import Final

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.sql import literal, name
from barnabas.model.config import REQUIRED, ConfigTable, ConfigType

from .base import Change, Transformation, setting
from .dates import java_pattern

_JAVAS_OWN: Final = re.compile(r"\\[pPQEhHRXGzZ]|&&|\(\?<[A-Za-z]|[*+?}]\+|\\x\{")


def regex(text: str) -> str | None:
    """Allow regular expressions; what only Java's have is left to Spark to judge."""
    if _JAVAS_OWN.search(text):
        return None
    try:
        re.compile(text)
    except re.error as error:
        return f"Invalid regex: {error}"
    return None


def whole_match(column: str, pattern: str) -> str:
    """Give SQL of whether a regular expression matches all of a text."""
    return f"{column} RLIKE {literal(_anchored(pattern))}"


def _anchored(pattern: str) -> str:
    return f"\\A(?:{pattern})\\z"


class RegexRouter(Transformation):
    """Gives a topic another name, where all of its name matches."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.RegexRouter"
    HAS_PARTS = False
    CONFIG = ConfigTable(
        setting("regex", ConfigType.STRING, REQUIRED, "What the whole name has to match, in Java.", regex),
        setting("replacement", ConfigType.STRING, REQUIRED, "The new name, with $1 for the first group."),
    )

    def change(self, records: Records) -> Change:
        """Give the topic's new name."""
        topic = name("topic")
        pattern, replacement = literal(_anchored(self.config["regex"])), literal(self.config["replacement"])
        renamed = f"regexp_replace({topic}, {pattern}, {replacement})"
        matches = whole_match(topic, self.config["regex"])
        return Change(others={"topic": f"CASE WHEN {matches} THEN {renamed} ELSE {topic} END"})


class TimestampRouter(Transformation):
    """Puts the record's time into the name of its topic."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.TimestampRouter"
    HAS_PARTS = False
    CONFIG = ConfigTable(
        setting("topic.format", ConfigType.STRING, "${topic}-${timestamp}", "The new name."),
        setting(
            "timestamp.format", ConfigType.STRING, "yyyyMMdd", "How ${timestamp} looks, as SimpleDateFormat has it.",
            java_pattern,
        ),
    )  # fmt: skip

    def change(self, records: Records) -> Change:
        """Give the topic's new name; a record without a timestamp fails."""
        missing = literal("Timestamp missing on record")
        if "timestamp" not in records.frame.columns:
            return Change(problem=missing)
        time = f"date_format(cast({name('timestamp')} as timestamp), {literal(self.config['timestamp.format'])})"
        parts = re.split(r"(\$\{topic\}|\$\{timestamp\})", self.config["topic.format"], flags=re.IGNORECASE)
        shown = {"${topic}": name("topic"), "${timestamp}": time}
        made = ", ".join(shown.get(part.lower(), literal(part)) for part in parts)
        problem = f"CASE WHEN {name('timestamp')} IS NULL THEN {missing} END"
        return Change(others={"topic": f"concat({made})"}, problem=problem)


class Filter(Transformation):
    """Drops records: all of them, so that it is of use with a predicate."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.Filter"
    HAS_PARTS = False
    CONFIG = ConfigTable()

    def change(self, records: Records) -> Change:
        """Keep nothing."""
        return Change(kept="false")
