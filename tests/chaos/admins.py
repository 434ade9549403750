"""Admins of a chaos run: each knows a single broker at a time and does everything through it (KIP-590).

Requests go out once, without a library in between that would try again, so that every error is seen. A change whose
fate nobody knows is tried again under the same name until it is done.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from barnabas.client.config import ClientConfig
from barnabas.client.security import channel_settings
from barnabas.net.client import Channel, ChannelError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.chaos.history import History
from tests.chaos.worker import Worker

TIMEOUT_MS: Final = 5_000
TRIES: Final = 40
PAUSE_SECONDS: Final = 0.1
KEPT_USERS: Final = 5
_SCRAM_SHA_256: Final = 1
_TOPIC, _LITERAL, _READ, _ALLOW = 2, 3, 3, 3


class RawAdmin(Worker):
    """Sends admin requests over our own connection to one broker, another one after each change."""

    def __init__(
        self,
        name: str,
        history: History,
        settings: Mapping[str, str],
        brokers: Sequence[str],
        seed: int,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """brokers: host:port of each. timeout_ms: how long a change may take."""
        super().__init__(name, history)
        self._brokers = list(brokers)
        self._rng = random.Random(seed)
        config = ClientConfig.from_properties(
            {**settings, "request.timeout.ms": str(timeout_ms + 2_000), "socket.connection.setup.timeout.ms": "10000"}
        )
        self._settings = channel_settings(config)
        self._timeout_ms = timeout_ms
        self._count = 0
        self._topics: list[str] = []

    def run(self) -> None:
        """Change things until told to stop."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        changes = (self._create, self._create, self._delete, self._grow, self._acl, self._user, self._quota)
        while not self.stopping.is_set():
            self._count += 1
            await self._rng.choice(changes)()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _create(self) -> None:
        name, partitions = f"{self.name}-{self._count}", self._rng.randrange(1, 4)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)],
            timeout_ms=self._timeout_ms,
        )
        if await self._change("topic", name, str(partitions), request, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._topics.append(name)

    async def _delete(self) -> None:
        if len(self._topics) > 1:
            name = self._topics.pop(self._rng.randrange(len(self._topics)))
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=self._timeout_ms
            )
            await self._change("topic", name, None, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _grow(self) -> None:
        if self._topics:
            name = self._rng.choice(self._topics)
            count = 1 + max(int(v) for v in self.history.item("topic", name).allowed if v is not None)
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=self._timeout_ms
            )
            # It has so many already when an earlier try got through.
            await self._change("topic", name, str(count), request, ErrorCode.INVALID_PARTITIONS)

    async def _acl(self) -> None:
        principal = f"User:{self.name}-{self._count}"
        creation = AclCreation(
            resource_type=_TOPIC,
            resource_name="anything",
            resource_pattern_type=_LITERAL,
            principal=principal,
            host="*",
            operation=_READ,
            permission_type=_ALLOW,
        )
        await self._change("acl", principal, "read", CreateAclsRequest(creations=[creation]))

    async def _user(self) -> None:
        user, iterations = f"{self.name}-{self._count % KEPT_USERS}", 4096 + self._count
        upsertion = ScramCredentialUpsertion(
            name=user,
            mechanism=_SCRAM_SHA_256,
            iterations=iterations,
            salt=b"chaos",
            salted_password=hashlib.sha256(user.encode()).digest(),
        )
        await self._change(
            "user", user, str(iterations), AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        )

    async def _quota(self) -> None:
        user = f"{self.name}-{self._count % KEPT_USERS}"
        entry = RequestEntryData(
            entity=[EntityData(entity_type="user", entity_name=user)],
            ops=[OpData(key="consumer_byte_rate", value=float(1_000_000 + self._count), remove=False)],
        )
        await self._change(
            "quota", user, str(1_000_000 + self._count), AlterClientQuotasRequest(entries=[entry], validate_only=False)
        )

    async def _change(
        self, kind: str, name: str, value: str | None, request: Any, done_before: ErrorCode | None = None
    ) -> bool:
        """Try until it is done; False when it is not after many tries.

        done_before: what says that an earlier try was, of ours or of the broker that asks the controller for us.
        """
        item = self.history.item(kind, name)
        for _ in range(TRIES):
            codes = await self._codes(request)
            if codes in ({ErrorCode.NONE}, {done_before}):
                item.acknowledged(value)
                self.history.changes += 1
                return True
            item.unsure(value)
            for code in codes - {ErrorCode.NONE}:
                self.history.refuse(self.name, f"{kind} {name}: {code.name}")
            await asyncio.sleep(PAUSE_SECONDS)
        self.history.error(self.name, f"gave up on {kind} after {TRIES} tries")
        return False

    async def _codes(self, request: Any) -> set[ErrorCode]:
        """Send once, to any one broker, and give every error code in its answer."""
        host, _, port = self._rng.choice(self._brokers).rpartition(":")
        try:
            channel = await Channel.open(host, int(port), self._settings)
        except ChannelError as e:
            self.history.error(self.name, type(e).__name__)
            return set()
        try:
            return {ErrorCode(code) for code in error_codes(await channel.call(request))}
        except ChannelError as e:
            self.history.error(self.name, type(e).__name__)
            return set()
        finally:
            await channel.close()


class LibrdkafkaAdmin(Worker):
    """librdkafka's admin client: creates topics and sets their configurations."""

    def __init__(
        self,
        name: str,
        history: History,
        settings: Mapping[str, Any],
        brokers: Sequence[str],
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """brokers: host:port of each; it is told of one. timeout_ms: how long a change may take."""
        super().__init__(name, history)
        told: dict[str, Any] = {
            **settings,
            "bootstrap.servers": brokers[0],
            "client.id": name,
            "error_cb": lambda error: history.error(name, error.name()),
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
        }
        self._admin = AdminClient(told)
        self._timeout_s = timeout_ms / 1000

    def run(self) -> None:
        """Change things until told to stop."""
        number = 0
        while not self.stopping.wait(PAUSE_SECONDS):
            number += 1
            self._create(f"{self.name}-{number}")
            self._configure(f"{self.name}-1", number)

    def _create(self, topic: str) -> None:
        item = self.history.item("topic", topic)
        for _ in range(TRIES):
            try:
                self._admin.create_topics(
                    [NewTopic(topic, 1)], operation_timeout=self._timeout_s, request_timeout=self._timeout_s + 5
                )[topic].result()
            except confluent_kafka.KafkaException as e:
                if e.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    item.unsure("1")
                    self._failed(e)
                    continue
            item.acknowledged("1")
            self.history.changes += 1
            return

    def _configure(self, topic: str, number: int) -> None:
        item, value = self.history.item("config", topic), str(3_600_000 + number)
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        try:
            self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s + 5)[resource].result()
        except confluent_kafka.KafkaException as e:
            item.unsure(value)
            self._failed(e)
        else:
            item.acknowledged(value)
            self.history.changes += 1

    def _failed(self, e: confluent_kafka.KafkaException) -> None:
        error = e.args[0]
        if error.code() < 0:
            # No node said so: the connection ended, after which librdkafka leaves it to the application to try again.
            self.history.error(self.name, error.name())
        else:
            self.history.refuse(self.name, error.name())
        self.stopping.wait(PAUSE_SECONDS)


def error_codes(message: Any) -> Iterator[int]:
    """Give every error code in a response, at whatever depth."""
    if isinstance(message, list | tuple):
        for element in message:
            yield from error_codes(element)
    elif is_dataclass(message):
        for field in fields(message):
            value = getattr(message, field.name)
            if field.name == "error_code":
                yield value
            else:
                yield from error_codes(value)
