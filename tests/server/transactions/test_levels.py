"""transaction.version goes down and up beneath a producer at work (KIP-890, KIP-1022)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.nodes import FeatureUpdate, UpgradeType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.transactions import TransactionDescription
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ApiError
from tests.peers.eventually import eventually
from tests.server.transactions.test_clients import ONE_PARTITION, read

VERSION = "transaction.version"


async def set_level(admin: Admin, level: int, how: UpgradeType) -> None:
    assert await admin.update_features([FeatureUpdate(VERSION, level, how)]) == {VERSION: None}

    async def finalized() -> int:
        return (await admin.describe_features()).finalized.get(VERSION, 0)

    await eventually(finalized, level)


async def epoch_of(admin: Admin, name: str) -> int:
    found = (await admin.describe_transactions([name]))[name]
    assert isinstance(found, TransactionDescription)
    return found.producer_epoch


async def one_transaction(producer: TransactionalProducer, topic: str, value: bytes) -> None:
    async with producer.transaction():
        await producer.send(topic, value, partition=0)


async def test_levels_change_beneath_a_producer(tmp_path: Path) -> None:
    """Where the level is 2 each end gives a new epoch; below, a producer keeps its own."""
    with Cluster(tmp_path, ONE_PARTITION) as cluster:
        config = cluster.admin.barnabas
        async with Admin(config) as admin, asyncio.timeout(60):
            assert await admin.create_topics([NewTopic("levels", 1, 1)]) == {"levels": None}
            values = []
            for round_, (level, how) in enumerate(
                (
                    (2, UpgradeType.UPGRADE),
                    (1, UpgradeType.SAFE_DOWNGRADE),
                    (0, UpgradeType.SAFE_DOWNGRADE),
                    (1, UpgradeType.UPGRADE),
                    (2, UpgradeType.UPGRADE),
                )
            ):
                if round_:
                    await set_level(admin, level, how)
                async with TransactionalProducer(config.with_properties(transactional_id="levels")) as producer:
                    await producer.init_transactions()
                    epoch = await epoch_of(admin, "levels")
                    for n in range(3):
                        values.append(f"{round_}-{n}")
                        await one_transaction(producer, "levels", values[-1].encode())
                    grown = 3 if level == 2 else 0
                    await eventually(lambda: epoch_of(admin, "levels"), epoch + grown)
        assert read(cluster, "levels") == values


async def test_levels_that_nobody_runs_are_refused(tmp_path: Path) -> None:
    with Cluster(tmp_path, ONE_PARTITION) as cluster:
        async with Admin(cluster.admin.barnabas) as admin:
            with pytest.raises(ApiError):
                await admin.update_features([FeatureUpdate(VERSION, 3)])
            with pytest.raises(ApiError):
                await admin.update_features([FeatureUpdate(VERSION, 1)])  # down, and not said to be
