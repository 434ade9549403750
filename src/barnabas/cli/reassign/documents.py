"""The JSON documents of kafka-reassign-partitions: what to move where, and which topics to spread anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.cli.errors import CliError
from barnabas.client.admin.reassignments import Replica
from barnabas.model.topic_partition import TopicPartition

ANY_LOG_DIR: Final = "any"
_VERSION: Final = 1


class Plan(NamedTuple):
    """Where partitions are to be. log_dirs: for the replicas whose directory is named, an absolute path."""

    replicas: Mapping[TopicPartition, Sequence[int]]
    log_dirs: Mapping[Replica, str]


def read_plan(path: Path) -> Plan:
    """Give the plan in a file; CliError when it is not of Kafka's form, or moves something twice or nowhere."""
    replicas: dict[TopicPartition, list[int]] = {}
    log_dirs: dict[Replica, str] = {}
    twice: list[TopicPartition] = []
    for entry in _entries(path, "partitions"):
        try:
            partition = TopicPartition(_text(entry["topic"]), _number(entry["partition"]))
            brokers = [_number(broker) for broker in entry["replicas"]]
            directories = [_text(d) for d in entry.get("log_dirs", [ANY_LOG_DIR] * len(brokers))]
        except (KeyError, TypeError, ValueError):
            raise CliError(f"{path}: {json.dumps(entry)} wants topic, partition, replicas, see --help.") from None
        _check(path, partition, brokers, directories)
        if partition in replicas:
            twice.append(partition)
        replicas[partition] = brokers
        for broker, directory in zip(brokers, directories, strict=True):
            if directory != ANY_LOG_DIR:
                log_dirs[Replica(*partition, broker)] = directory
    if twice:
        raise CliError(f"{path} moves partitions twice: {', '.join(map(str, twice))}.")
    if not replicas:
        raise CliError(f"{path} names no partitions.")
    return Plan(replicas, log_dirs)


def read_topics(path: Path) -> list[str]:
    """Give the topics that a file names; CliError when it is not of Kafka's form or names one twice."""
    try:
        topics = [_text(entry["topic"]) for entry in _entries(path, "topics")]
    except (KeyError, TypeError, ValueError):
        raise CliError(f'{path}: want {{"topics": [{{"topic": "orders"}}], "version": 1}}.') from None
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise CliError(f"{path} names topics twice: {', '.join(twice)}.")
    if not topics:
        raise CliError(f"{path} names no topics.")
    return topics


def as_document(plan: Plan) -> dict[str, Any]:
    """Give a plan in the form that `read_plan` and Kafka's tool read."""
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": p.topic,
                "partition": p.partition,
                "replicas": list(brokers),
                "log_dirs": [plan.log_dirs.get(Replica(*p, broker), ANY_LOG_DIR) for broker in brokers],
            }
            for p, brokers in sorted(plan.replicas.items())
        ],
    }


def as_line(plan: Plan) -> str:
    """Give the same as one line of text."""
    return json.dumps(as_document(plan), separators=(",", ":"))


def _entries(path: Path, key: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise CliError(f"Cannot read {path}: {e.strerror}.") from None
    except ValueError as e:
        raise CliError(f"{path} is no JSON: {e}.") from None
    if not isinstance(document, dict) or document.get("version", _VERSION) != _VERSION:
        raise CliError(f"{path}: only version {_VERSION} of the document is known.")
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CliError(f"{path}: {key} wants a list of objects.")
    return entries


def _check(path: Path, partition: TopicPartition, brokers: Sequence[int], directories: Sequence[str]) -> None:
    if not brokers:
        raise CliError(f"{path}: {partition} is to have no replicas.")
    if len(set(brokers)) != len(brokers):
        raise CliError(f"{path}: {partition} is to have two replicas on one broker.")
    if len(directories) != len(brokers):
        raise CliError(f"{path}: {partition} has {len(brokers)} replicas, but {len(directories)} log_dirs.")


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value
