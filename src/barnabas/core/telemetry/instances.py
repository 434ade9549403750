"""The clients that push their metrics, and what they may do when (KIP-714).

A client asks for its subscription, and then pushes once in every interval. A broker knows each client by the id that
the client got from some broker, for as long as it hears of it; one that it does not know it takes in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import crc32c

from barnabas.core.telemetry.subscriptions import ALL_METRICS, DEFAULT_INTERVAL_MS, ClientAttributes, Subscription
from barnabas.model.ports import NewUuid
from barnabas.model.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest

MAX_INSTANCES: Final = 16_384
"""How many clients a broker remembers; whom it has not heard of for longest it forgets first."""
_REMEMBERED_MS: Final = 60_000
_REMEMBERED_INTERVALS: Final = 3
_ACCEPTED_CODECS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
_NEVER: Final = -(1 << 62)
_NOBODYS: Final = (ZERO_UUID, METADATA_TOPIC_ID)
"""The ids that no client has; Kafka gives out the others that Barnabas keeps back."""
_MAY_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""What a client cannot mend without asking for its subscription anew."""


@dataclass(slots=True)
class Pushes:
    """What has become of a client's requests. throttled: came too early; failed: could not be exported."""

    throttled: int = 0
    exported: int = 0
    failed: int = 0
    export_ns: int = 0
    longest_export_ns: int = 0


@dataclass(slots=True)
class ClientInstance:
    """A client, and what it is to push. version: of the subscriptions when that was worked out."""

    id: Uuid
    attributes: ClientAttributes
    metrics: tuple[str, ...]
    push_interval_ms: int
    subscription_id: int
    version: int
    pushes: Pushes
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    last_get_ms: int = field(default=_NEVER)
    last_push_ms: int = field(default=_NEVER)
    forgotten_at_ms: int = 0

    def may_get(self, now_ms: int) -> bool:
        """Say whether it may ask for its subscription now, and take note of it when it may."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.push_interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Say whether it may push now, and take note of it when it may: once at any time after it has asked."""
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.push_interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class ClientInstances:
    """See the module. Time is the caller's, any clock in ms that does not go back."""

    def __init__(self, new_uuid: NewUuid, max_bytes: int) -> None:
        """max_bytes: the largest push, as it comes and decompressed."""
        self._new_uuid = new_uuid
        self._max_bytes = max_bytes
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0
        self._known: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._by_connection: dict[str, Uuid] = {}
        self._next_sweep_ms = _NEVER
        self.unknown_subscriptions = 0
        """How many pushes were for a subscription that is not the client's any more."""

    def subscribe(self, name: str, subscription: Subscription | None) -> None:
        """Take up a subscription under its name, or its end (None); clients learn of it when they ask next."""
        if subscription is not None:
            self._subscriptions[name] = subscription
        elif self._subscriptions.pop(name, None) is None:
            return
        self._version += 1

    def known(self, now_ms: int) -> Mapping[Uuid, ClientInstance]:
        """Give the clients that were heard of lately."""
        self._forget_silent(now_ms)
        return self._known

    def connection_ended(self, connection: str) -> None:
        """Forget the client that first came by a connection, now that it is gone."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._known.pop(instance_id, None)

    def subscription_of(
        self, instance_id: Uuid, client: ClientAttributes, connection: str, now_ms: int
    ) -> GetTelemetrySubscriptionsResponse:
        """Tell a client what to push, and its id if it has none; ApiError THROTTLING_QUOTA_EXCEEDED when too early."""
        if instance_id == ZERO_UUID:
            instance_id = self._fresh_id()
        instance = self._heard_of(instance_id, client, connection, now_ms)
        if not instance.may_get(now_ms) and instance.last_error not in _MAY_ASK_AGAIN:
            raise _too_early(instance)
        instance.last_error = ErrorCode.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(_ACCEPTED_CODECS),
            push_interval_ms=instance.push_interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.metrics),
        )

    def admit(
        self, push: PushTelemetryRequest, client: ClientAttributes, connection: str, now_ms: int
    ) -> ClientInstance:
        """Give the client whose push may be taken; ApiError when it may not."""
        if push.client_instance_id in _NOBODYS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{push.client_instance_id} is not the id of a client")
        instance = self._heard_of(push.client_instance_id, client, connection, now_ms)
        try:
            self._check(push, instance, now_ms)
        except ApiError as e:
            instance.last_error = e.code
            raise
        finally:
            instance.terminating = push.terminating
        instance.last_error = ErrorCode.NONE
        return instance

    def _check(self, push: PushTelemetryRequest, instance: ClientInstance, now_ms: int) -> None:
        if instance.terminating:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the client has said already that it pushes no more")
        if not instance.may_push(now_ms) and not push.terminating:
            raise _too_early(instance)
        if push.subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if push.compression_type not in tuple(Compression):
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(push.metrics) > self._max_bytes:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _heard_of(self, instance_id: Uuid, client: ClientAttributes, connection: str, now_ms: int) -> ClientInstance:
        self._forget_silent(now_ms)
        instance = self._known.get(instance_id)
        if instance is None:
            instance = self._taken_in(
                instance_id, client._replace(client_instance_id=str(instance_id)), Pushes(), connection
            )
        elif instance.version < self._version:
            # it may ask at once what has changed, as if it came for the first time
            instance = self._taken_in(instance_id, instance.attributes, instance.pushes, connection)
        self._known.move_to_end(instance_id)
        if len(self._known) > MAX_INSTANCES:
            self._known.popitem(last=False)
        instance.forgotten_at_ms = now_ms + max(_REMEMBERED_MS, _REMEMBERED_INTERVALS * instance.push_interval_ms)
        return instance

    def _taken_in(
        self, instance_id: Uuid, attributes: ClientAttributes, pushes: Pushes, connection: str
    ) -> ClientInstance:
        theirs = [one for one in self._subscriptions.values() if one.applies_to(attributes)]
        metrics = frozenset[str]().union(*(one.metrics for one in theirs))
        wanted = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        interval_ms = min((one.interval_ms for one in theirs), default=DEFAULT_INTERVAL_MS)
        interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
        subscription_id = _subscription_id(wanted, interval_ms, instance_id)
        instance = ClientInstance(instance_id, attributes, wanted, interval_ms, subscription_id, self._version, pushes)
        self._known[instance_id] = instance
        self._by_connection[connection] = instance_id
        return instance

    def _fresh_id(self) -> Uuid:
        instance_id = self._new_uuid()
        while instance_id in self._known:
            instance_id = self._new_uuid()
        return instance_id

    def _forget_silent(self, now_ms: int) -> None:
        if now_ms < self._next_sweep_ms:
            return
        for instance in [one for one in self._known.values() if one.forgotten_at_ms <= now_ms]:
            del self._known[instance.id]
        self._next_sweep_ms = now_ms + _REMEMBERED_MS // 10


def _too_early(instance: ClientInstance) -> ApiError:
    instance.pushes.throttled += 1
    return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the request came before the next push was due")


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: Uuid) -> int:
    """Give a number that is another one when what is to be pushed is: int32, from both and the client's id."""
    folded = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    number = crc32c.crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return number - (1 << 32) if number >= 1 << 31 else number
