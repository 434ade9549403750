"""What happens to those who are not allowed in: no account, and an account without a rule."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig, load_properties_file
from barnabas.demo import flights
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError
from barnabas.demo.principals import STRANGER
from barnabas.model.acl import AclOperation
from barnabas.spark.explain import SourceError, about, explained

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """who tried what, what the node answered, and why as we explain it."""

    who: str
    answer: str
    why: str


def try_both(folder: Folder) -> list[Refusal]:
    """Give the two refusals; DemoError when a stranger gets in."""
    settings = dict(load_properties_file(folder.client_file(STRANGER)))
    return [_wrong_password(settings), _no_rule(settings)]


def _wrong_password(settings: dict[str, str]) -> Refusal:
    errors: list[str] = []
    refused = threading.Event()

    def on_error(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            errors.append(error.str())
            refused.set()

    wrong: dict[str, Any] = {**settings, "sasl.password": "a guess", "group.id": STRANGER, "error_cb": on_error}
    consumer = Consumer({**wrong, "log_level": 0})
    try:
        consumer.list_topics(timeout=3)
    except KafkaException as error:
        errors.append(error.args[0].str())
        consumer.poll(0.5)  # serves on_error
    else:
        raise DemoError("a stranger with a wrong password got in")
    finally:
        consumer.close()
    said = next((text for text in errors if "uthentication" in text), errors[0])
    return Refusal("stranger with a wrong password", said, "SCRAM proves the password; the node closes the connection")


def _no_rule(settings: dict[str, str]) -> Refusal:
    consumer = Consumer({**settings, "group.id": STRANGER, "log_level": 0})
    try:
        answer = consumer.list_topics(flights.TOPIC, timeout=TIMEOUT_S).topics[flights.TOPIC].error
    finally:
        consumer.close()
    if answer is None:
        raise DemoError("a stranger without a rule saw the topic")
    return Refusal("stranger without a rule", answer.name(), asyncio.run(_why(settings)))


async def _why(settings: dict[str, str]) -> str:
    config = ClientConfig.from_properties(settings)
    async with Cluster(config) as cluster:
        try:
            with explained(config, AclOperation.READ), about(flights.TOPIC):
                await cluster.topic(flights.TOPIC)
        except SourceError as error:
            return str(error)
    raise DemoError("a stranger without a rule saw the topic")
