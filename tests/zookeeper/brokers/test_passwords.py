"""Passwords among the configs of a broker: what Apache Kafka 3.9.1 wrote is read by ours, and the other way round."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from barnabas.model.config import Password
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.passwords import PasswordEncoder
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper

from .admins import LIMIT_S, do

pytestmark = [pytest.mark.peer]

KEY: Final = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MAKES: Final = pytest.mark.parametrize("ours", [True, False], ids=["ours first", "theirs first"])
_USER: Final = f'username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}"'
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
WITH_ANOTHER_USER: Final = f'{_MODULE} {_USER} user_late="of later";'


def a_broker(
    folder: Path, zookeeper: ZooKeeper, chroot: str, *, ours: bool, number: int = 0, **secrets: str
) -> ZooKeeperBroker:
    properties = {f"password.encoder.{name}": value for name, value in secrets.items()}
    return ZooKeeperBroker(folder, zookeeper.connect + chroot, broker_id=number, ours=ours, properties=properties)


def set_password(broker: ZooKeeperBroker) -> None:
    """Have clients of this broker log in as `late` too, from its next start on: so Kafka's brokers do it."""
    entry = ConfigEntry(KEY, WITH_ANOTHER_USER, incremental_operation=AlterConfigOpType.SET)
    wanted = [ConfigResource(ConfigResource.Type.BROKER, str(broker.broker_id), incremental_configs=[entry])]
    do(broker.librdkafka(), lambda admin: admin.incremental_alter_configs(wanted))


def stands(zookeeper: ZooKeeper, chroot: str) -> str:
    """Give how the password stands in ZooKeeper."""

    async def read() -> str:
        async with ZooKeeperClient(zookeeper.settings("super", chroot)) as zk:
            data, _ = await zk.get("/config/brokers/0")
            found: dict[str, Any] = json.loads(data)
            return str(found["config"][KEY])

    return asyncio.run(read())


def reads(broker: ZooKeeperBroker, text: str) -> None:
    """Prove that the broker has read the password: Kafka's takes it up at its start, ours said nothing against it."""
    if broker.ours:
        secret = Password(broker.properties["password.encoder.secret"])
        assert PasswordEncoder(lambda _: True, secret).decoded(text) == WITH_ANOTHER_USER
        assert "cannot be read" not in broker.process.whole_log()
    else:
        settings = {**broker.librdkafka(), "sasl.username": "late", "sasl.password": "of later"}
        assert AdminClient(settings).list_topics(timeout=LIMIT_S).brokers


@MAKES
def test_what_one_make_has_written_the_other_reads(
    zookeeper: ZooKeeper, chroot: str, tmp_path: Path, ours: bool
) -> None:
    # Kafka's brokers renew their passwords only while another broker is the controller.
    controller = a_broker(tmp_path / "controller", zookeeper, chroot, ours=True, number=1, secret="first")
    with controller, a_broker(tmp_path / "0", zookeeper, chroot, ours=ours, secret="first") as broker:
        set_password(broker)
        written = stands(zookeeper, chroot)
        assert "of later" not in written
        broker.stop()
        broker.ours = not ours
        broker.start()
        reads(broker, written)
        assert stands(zookeeper, chroot) == written
        broker.stop()
        broker.properties = {"password.encoder.secret": "second", "password.encoder.old.secret": "first"}
        broker.start()
        renewed = stands(zookeeper, chroot)
        assert renewed != written
        reads(broker, renewed)
        broker.stop()
        broker.ours = ours
        broker.properties = {"password.encoder.secret": "second"}
        broker.start()
        reads(broker, renewed)


@MAKES
def test_without_a_secret_no_password_is_taken(zookeeper: ZooKeeper, chroot: str, tmp_path: Path, ours: bool) -> None:
    with a_broker(tmp_path, zookeeper, chroot, ours=ours) as broker:
        with pytest.raises(KafkaException, match=r"(?i)password.encoder") as refused:
            set_password(broker)
        assert refused.value.args[0].name() == "INVALID_CONFIG"
        if ours:
            assert "password.encoder.secret" in str(refused.value)


def test_a_broker_with_another_secret_serves_and_leaves_the_password_alone(
    zookeeper: ZooKeeper, chroot: str, tmp_path: Path
) -> None:
    with a_broker(tmp_path, zookeeper, chroot, ours=True, secret="first") as broker:
        set_password(broker)
        written = stands(zookeeper, chroot)
        broker.stop()
        broker.properties = {"password.encoder.secret": "second"}
        broker.start()
        entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        wanted = [ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=[entry])]
        do(broker.librdkafka(), lambda admin: admin.incremental_alter_configs(wanted))
        assert stands(zookeeper, chroot) == written
        assert "cannot be read" in broker.process.whole_log()
