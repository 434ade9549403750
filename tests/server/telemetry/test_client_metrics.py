"""Clients' metrics on a running broker: from the subscription to the exporter (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.cluster import Cluster as Client
from barnabas.model.config import ConfigError
from barnabas.server.telemetry.exporters import (
    EXPORTERS,
    ClientTelemetryExporter,
    TelemetryContext,
    TelemetryPayload,
    load_exporters,
)
from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.compression import Compression, compress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest
from tests.core.telemetry.test_otlp import PUSHED
from tests.server.controllers import node_config

TELEMETRY_APIS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


class Kept(ClientTelemetryExporter):
    """Keeps what it gets, in the class, since the broker makes the object; fails on `fail`."""

    pushes: ClassVar[list[tuple[TelemetryContext, TelemetryPayload]]] = []
    closed: ClassVar[int] = 0

    def export(self, context: TelemetryContext, payload: TelemetryPayload) -> None:
        if payload.data == b"fail":
            raise ValueError("as told")
        Kept.pushes.append((context, payload))

    def close(self) -> None:
        Kept.closed += 1


class Idle(ClientTelemetryExporter):
    """Has no `export`."""


@pytest.mark.parametrize(
    ("name", "why"),
    [("no.such:Class", "cannot load"), ("builtins:int", "is not a Client"), (f"{__name__}:Idle", "has no method")],
)
def test_an_exporter_that_cannot_be_had_stops_the_start(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_exporters(node_config(tmp_path, **{EXPORTERS: name}))


@pytest.fixture(scope="module")
def collecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    exporters = f"{__name__}:Kept,barnabas.server.telemetry.log_exporter:LogExporter"
    closed = Kept.closed
    with Cluster(tmp_path_factory.mktemp("telemetry"), {EXPORTERS: exporters}) as running:
        yield running
    assert Kept.closed == closed + 1


async def call(user: User, *requests: Any) -> list[Any]:
    """Send requests on one connection."""
    async with Client(user.barnabas) as client:
        return [await client.call_any(request) for request in requests]


async def subscribe(user: User, **configs: str | None) -> None:
    """Change the subscription that these tests share; keys with `__` for a dot."""
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, "all")
    changes = [
        ConfigChange(key.replace("__", "."), AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
        for key, value in configs.items()
    ]
    async with Admin(user.barnabas) as admin:
        assert await admin.incremental_alter_configs({resource: changes}) == {resource: None}


async def subscription(client: Client) -> GetTelemetrySubscriptionsResponse:
    answer: GetTelemetrySubscriptionsResponse = await client.call_any(GetTelemetrySubscriptionsRequest())
    return answer


async def apis(user: User) -> set[int]:
    (answer,) = await call(user, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    return {key.api_key for key in answer.api_keys}


async def test_brokers_offer_to_take_metrics_only_where_they_have_somewhere_to_go(
    barnabas: Cluster, collecting: Cluster
) -> None:
    assert not await apis(barnabas.admin) & TELEMETRY_APIS
    assert await apis(collecting.admin) >= TELEMETRY_APIS


async def test_what_is_pushed_reaches_the_exporters(collecting: Cluster) -> None:
    await subscribe(collecting.admin, metrics="a.", interval__ms="100")
    stranger = collecting.as_user("stranger")
    Kept.pushes.clear()
    async with Client(stranger.barnabas) as client:
        asked = await subscription(client)
        assert (asked.error_code, asked.requested_metrics, asked.push_interval_ms) == (ErrorCode.NONE, ["a."], 100)
        pushed = PushTelemetryRequest(
            client_instance_id=asked.client_instance_id,
            subscription_id=asked.subscription_id,
            compression_type=Compression.ZSTD,
            metrics=compress(Compression.ZSTD, PUSHED),
        )
        assert (await client.call_any(pushed)).error_code == ErrorCode.NONE
    ((context, payload),) = Kept.pushes
    assert (payload.data, payload.client_instance_id, payload.terminating) == (PUSHED, asked.client_instance_id, False)
    assert (context.principal.name, context.push_interval_ms) == ("stranger", 100)
    assert context.client.client_instance_id == str(asked.client_instance_id)
    assert context.client.client_source_address is not None


async def test_a_push_that_cannot_be_exported_is_refused_and_counted(collecting: Cluster) -> None:
    await subscribe(collecting.admin, metrics="a.", interval__ms="3600000")  # whoever is slow is still early
    async with Client(collecting.admin.barnabas) as client:
        asked = await subscription(client)
        failing = PushTelemetryRequest(
            client_instance_id=asked.client_instance_id, subscription_id=asked.subscription_id, metrics=b"fail"
        )
        assert (await client.call_any(failing)).error_code == ErrorCode.INVALID_RECORD
        early = await client.call_any(failing)
        assert early.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        found = dict(collecting.node.metrics.registry.values("kafka.server:type=client-metrics*"))
    assert found["kafka.server:type=client-metrics"]["instance-count"] in range(1, 10)
    mine = found[f"kafka.server:type=client-metrics,client_instance_id={asked.client_instance_id}"]
    assert (mine["plugin-error-count"], mine["plugin-export-count"], mine["throttle-count"]) == (1, 0, 1)


async def test_a_changed_subscription_is_followed(collecting: Cluster) -> None:
    await subscribe(collecting.admin, metrics="*", interval__ms="200")
    async with Client(collecting.admin.barnabas) as client:
        assert (await subscription(client)).requested_metrics == ["*"]
    await subscribe(collecting.admin, metrics=None, interval__ms=None)
    async with Client(collecting.admin.barnabas) as client:
        asked = await subscription(client)
        assert (asked.requested_metrics, asked.push_interval_ms) == ([], 300_000)
