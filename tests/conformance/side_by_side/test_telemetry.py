"""What clients measure of themselves (KIP-714): who is asked for what, and what becomes of pushes, bad ones too."""

from __future__ import annotations

from typing import Any, Final

import pytest

from barnabas.model.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from barnabas.wire.compression import Compression, compress
from tests.core.telemetry.test_otlp import PUSHED

from .requests import request
from .script import side_by_side
from .side import ADMIN, NOBODY, Side

pytestmark = pytest.mark.peer
MOST: Final = 5_000
"""telemetry.max.bytes of both."""
CLIENT_METRICS: Final = 16
BOMB: Final = b"\0" * 1_000_000


def client(number: int) -> Uuid:
    """Give the id of a client, whoever made it."""
    return Uuid(b"a client of ours"[:15] + bytes([number]))


def asked(who: Uuid) -> Any:
    """Give the question what this client is to push."""
    return request("GetTelemetrySubscriptions", client_instance_id=who)


def pushed(who: Uuid, subscription: int, metrics: bytes = PUSHED, **fields: Any) -> Any:
    """Give a push."""
    said = {"client_instance_id": who, "subscription_id": subscription, "metrics": metrics, **fields}
    return request("PushTelemetry", **said)


def subscribe(s: Side, name: str, **configs: str | None) -> None:
    """Set, or with None take away, the keys of a subscription, and wait until the broker knows."""
    changes = [
        {"name": key.replace("__", "."), "value": value, "config_operation": 0 if value is not None else 1}
        for key, value in configs.items()
    ]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
    answer = s.ask(request("IncrementalAlterConfigs", resources=[resource]))
    assert answer.responses[0].error_code == 0, answer
    s.settle()


@side_by_side
def test_clients_that_nobody_asks_for_anything(s: Side) -> None:
    for who in (client(1), ZERO_UUID, METADATA_TOPIC_ID, Uuid(bytes(15) + b"\2")):
        for user in (ADMIN, NOBODY):
            answer = s.ask(asked(who), user=user)
            if answer.client_instance_id != who:
                answer.subscription_id = 0  # depends on the id that was made up
            s.note(asked(who), 0, user, answer, f"{who}")
            s.call(pushed(who, 1), user=user, note=f"{who}")
    s.call(asked(client(2)))
    s.call(asked(client(2)), note="again, too early")
    s.call(pushed(client(2), 1), note="another subscription")
    s.call(pushed(client(2), 1), note="another subscription, too early")
    s.call(asked(client(2)), note="may ask again after that")


@side_by_side
def test_pushes(s: Side) -> None:
    try:
        subscribe(s, "pushes", metrics="org.apache.kafka", interval__ms="300000", match="client_id=side-by-side")
        _push(s)
    finally:
        subscribe(s, "pushes", metrics=None, interval__ms=None, match=None)
    s.call(asked(client(99)), note="when there is none any more")


def _push(s: Side) -> None:
    odd: dict[str, Any] = {
        "as asked": {},
        "nothing": {"metrics": b""},
        "junk": {"metrics": b"\xff" * 50},
        "the most": {"metrics": b"\0" * MOST},
        "too much": {"metrics": b"\0" * (MOST + 1)},
        "an unknown codec": {"compression_type": 9},
        "a negative codec": {"compression_type": -1},
        "not compressed": {"compression_type": int(Compression.ZSTD)},
        "the last": {"terminating": True},
        **{
            f"{codec.name}": {"compression_type": int(codec), "metrics": bytes(compress(codec, PUSHED))}
            for codec in Compression
        },
        **{
            f"much of {codec.name}": {"compression_type": int(codec), "metrics": bytes(compress(codec, BOMB))}
            for codec in (Compression.GZIP, Compression.ZSTD)
        },
    }
    for number, (note, fields) in enumerate(odd.items(), 10):
        who = client(number)
        mine = s.call(asked(who), note=note).subscription_id
        s.call(pushed(who, mine, **fields), note=note)
        s.call(asked(who), note=f"after {note}")
        s.call(pushed(who, mine), note=f"after {note}")
        s.call(pushed(who, mine, terminating=True), note=f"after {note}, the last")
        s.call(pushed(who, mine, terminating=True), note=f"after {note}, after the last")
    for number, subscription in enumerate((0, -1, 2**31 - 1, -(2**31)), 60):
        s.call(pushed(client(number), subscription), note=f"unasked {subscription}")
        s.call(asked(client(number)), note=f"unasked {subscription}")
        s.call(pushed(client(number), subscription), note=f"again {subscription}")
    mine = s.call(asked(client(70))).subscription_id
    subscribe(s, "pushes", interval__ms="200000")
    s.call(pushed(client(70), mine), note="what it was asked before")
    mine = s.call(asked(client(70)), note="may ask at once").subscription_id
    s.call(pushed(client(70), mine))
    subscribe(s, "pushes", match="client_id=somebody-else")
    s.call(asked(client(71)), note="of another")


@side_by_side
def test_subscriptions_that_cannot_be(s: Side) -> None:
    tried: dict[str, dict[str, str | None]] = {
        "too often": {"interval.ms": "99"},
        "too seldom": {"interval.ms": "3600001"},
        "not a number": {"interval.ms": "often"},
        "an empty metric": {"metrics": "a,,b"},
        "an unknown selector": {"match": "client_colour=red"},
        "a bad expression": {"match": "client_id=["},
        "no expression": {"match": "client_id"},
        "a selector twice": {"match": "client_id=a,client_id=b"},
        "an unknown key": {"colour": "red"},
        "a null": {"metrics": None},
    }
    for note, configs in tried.items():
        changes = [{"name": key, "value": value, "config_operation": 0} for key, value in configs.items()]
        for name in ("bad", ""):
            resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
            s.call(request("IncrementalAlterConfigs", resources=[resource], validate_only=True), note=f"{note} {name}")
