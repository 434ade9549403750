"""What a worker can run, and what it says of configurations that no JVM worker can be asked about."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder_port import BadRequestError, ConfigInfos, ConnectorType, NotFoundError
from barnabas.connect.plugins import WorkerPlugins
from barnabas.connect.spark.converters import Role, make_converter
from barnabas.connect.spark.transforms.chain import Chain
from barnabas.model.config import ConfigError
from tests.connect.workers import worker_properties

pytestmark = pytest.mark.slow

SINK = {"connector.class": "FileStreamSink", "name": "x", "topics": "t"}


def plugins(**more: str) -> WorkerPlugins:
    return WorkerPlugins(WorkerConfig.from_properties(worker_properties("127.0.0.1:1", "g") | more))


def wrong(infos: ConfigInfos) -> dict[str, list[str]]:
    return {row["value"]["name"]: row["value"]["errors"] for row in infos.configs if row["value"]["errors"]}


def value_of(infos: ConfigInfos, name: str) -> Any:
    (found,) = [row["value"]["value"] for row in infos.configs if row["value"]["name"] == name]
    return found


@pytest.mark.parametrize(
    "name", ["FileStreamSink", "FileStreamSinkConnector", "org.apache.kafka.connect.file.FileStreamSinkConnector"]
)
def test_a_class_has_several_names(name: str) -> None:
    known = plugins()
    config = {"connector.class": name}
    assert known.connector_class(config).__name__ == "FileStreamSink"
    assert (known.knows(config), known.connector_type(config)) == (True, ConnectorType.SINK)
    assert known.connector_version(config) == known.connector_class(config).VERSION
    assert [row["name"] for row in known.config_definitions(name)][:2] == ["file", "name"]


async def test_what_is_not_here_is_said_to_be_so() -> None:
    known = plugins()
    config = {"connector.class": "Nope", "name": "x"}
    assert (known.knows(config), known.connector_type(config)) == (False, ConnectorType.UNKNOWN)
    assert known.connector_version(config) is None
    assert not known.knows({})
    with pytest.raises(ConfigError, match=r"'Nope' .*FileStreamSink"):
        known.connector_class(config)
    with pytest.raises(BadRequestError, match="FileStreamSink"):
        await known.validate(config)
    with pytest.raises(NotFoundError):
        known.config_definitions("Nope")
    with pytest.raises(BadRequestError, match=r"'0\.9'"):
        known.config_definitions("FileStreamSink", "0.9")
    # A converter is no connector, whatever it is called.
    assert not known.knows({"connector.class": "org.apache.kafka.connect.storage.StringConverter"})


@pytest.mark.parametrize(
    "setting",
    ["connector", "key.converter", "header.converter", "transforms.t", "predicates.p"],
)
def test_a_connector_does_not_run_with_other_versions_than_it_asks_for(setting: str) -> None:
    kafka = "org.apache.kafka.connect."
    config = {
        "connector.class": "FileStreamSink",
        "key.converter": f"{kafka}storage.StringConverter",
        "header.converter": f"{kafka}storage.SimpleHeaderConverter",
        "transforms": "t",
        "transforms.t.type": f"{kafka}transforms.Flatten$Value",
        "predicates": "p",
        "predicates.p.type": f"{kafka}transforms.predicates.HasHeaderKey",
    }
    known = plugins()
    for wanted in ("latest", "1.0", "[1,2)"):
        assert known.connector_class(config | {f"{setting}.plugin.version": wanted}).__name__ == "FileStreamSink"
    for wanted in ("[2,3)", "[2"):
        with pytest.raises(ConfigError, match=rf"{setting}\.plugin\.version: .*\[2"):
            known.connector_class(config | {f"{setting}.plugin.version": wanted})


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ({}, []),
        ({"connector.client.config.override.policy": "None"}, ["fetch.max.bytes", "security.protocol"]),
        ({"connector.client.config.override.policy": "Principal"}, ["fetch.max.bytes"]),
        (
            {
                "connector.client.config.override.policy": "Allowlist",
                "connector.client.config.override.allowlist": "fetch.max.bytes, x",
            },
            ["security.protocol"],
        ),
    ],
)
async def test_connectors_override_what_they_may(policy: dict[str, str], refused: list[str]) -> None:
    overridden = {"consumer.override.fetch.max.bytes": "1000", "consumer.override.security.protocol": "PLAINTEXT"}
    infos = await plugins(**policy).validate(SINK | overridden)
    assert sorted(wrong(infos)) == [f"consumer.override.{name}" for name in refused]
    assert infos.error_count == len(refused)


async def test_a_bad_value_of_a_clients_setting_is_one_error_more() -> None:
    infos = await plugins().validate(SINK | {"consumer.override.fetch.max.bytes": "many", "tasks.max": "0"})
    assert sorted(wrong(infos)) == ["consumer.override.fetch.max.bytes", "tasks.max"]


async def test_secrets_are_looked_at_and_not_shown(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("number=many-and-more\ntopic=hush-hush\n")
    known = plugins(**{"config.providers": "file"})
    references = {
        "tasks.max": f"${{file:{secrets}:number}}",
        "topics": f"${{file:{secrets}:topic}}",
        "errors.deadletterqueue.topic.name": "hush-hush",
    }
    infos = await known.validate(SINK | references)
    assert sorted(wrong(infos)) == ["tasks.max", "topics"]
    assert value_of(infos, "topics") == references["topics"]
    assert references["tasks.max"] in wrong(infos)["tasks.max"][0]
    said = str([row for row in infos.configs if row["value"]["name"] in ("tasks.max", "topics")])
    assert "many-and-more" not in said
    assert "hush-hush" not in said
    with pytest.raises(BadRequestError, match=r"topics.*nothing"):
        await known.validate(SINK | {"topics": f"${{file:{secrets}:nothing}}"})


async def test_a_connectors_own_check_is_part_of_it() -> None:
    sink = {"connector.class": "SparkSink", "name": "x", "topics": "t"}
    assert list(wrong(await plugins().validate(sink))) == ["path"]
    assert wrong(await plugins().validate(sink | {"path": "/tmp/x"})) == {}
    assert list(wrong(await plugins().validate(sink | {"rotate.records": "0"}))) == ["rotate.records"]
    infos = await plugins().validate(sink | {"path": "/tmp/x"})
    names = [row["value"]["name"] for row in infos.configs]
    assert len(set(names)) == len(names)


INSTALLED = """
from barnabas.connect.connector import Sink
from barnabas.connect.spark.predicates import Predicate
from barnabas.connect.spark.converters.string import StringConverter
from barnabas.connect.spark.transforms.base import Change, Transformation
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType


class Counts(Sink):
    VERSION = "7.1"
    CONFIG = ConfigTable(ConfigKey("table", ConfigType.STRING, REQUIRED, "Where counts go."))

    def validate(self):
        if self.config["table"] == "broken":
            raise RuntimeError("its author did not think of that")
        return {} if self.config["table"] == "counts" else {"table": "want counts"}

    def write(self, batch, batch_id):
        pass


class Nothing(Transformation):
    CLASS_NAME = "example.Nothing"
    HAS_PARTS = False
    CONFIG = ConfigTable()

    def change(self, records):
        return Change()


class Loud(StringConverter):
    CLASS_NAME = "example.LoudConverter"


class Always(Predicate):
    CLASS_NAME = "example.Always"

    def test(self, frame):
        return "true"
"""
POINTS = """\
[barnabas.connectors]
counting = example_plugins:Counts
gone = example_plugins:Gone
other = example_plugins:Always
[barnabas.transforms]
nothing = example_plugins:Nothing
[barnabas.converters]
loud = example_plugins:Loud
[barnabas.predicates]
always = example_plugins:Always
"""


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with plug-ins, one of which cannot be loaded and one of which is something else."""
    (tmp_path / "example_plugins.py").write_text(INSTALLED)
    information = tmp_path / "example_plugins-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: example-plugins\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("example_plugins", None)


@pytest.mark.usefixtures("_package")
async def test_other_packages_bring_plug_ins() -> None:
    with structlog.testing.capture_logs() as lines:
        known = plugins()
    assert sorted(line["entry_point"] for line in lines if line["log_level"] == "error") == ["gone", "other"]
    for name in ("counting", "Counts", "example_plugins.Counts"):
        assert known.connector_class({"connector.class": name}).VERSION == "7.1"
    config = {"connector.class": "counting", "name": "x", "topics": "t", "table": "counts"}
    own = {"transforms": "n", "transforms.n.type": "example.Nothing", "transforms.n.predicate": "a", "predicates": "a"}
    own |= {
        "predicates.a.type": "Always",
        "key.converter": "LoudConverter",
        "key.converter.converter.encoding": "UTF-8",
    }
    infos = await known.validate(config | own)
    assert wrong(infos) == {}
    assert value_of(infos, "predicates.a.type") == "example.Always"
    assert value_of(infos, "key.converter") == "example.LoudConverter"
    assert len(Chain.of(config | own)) == 1
    assert make_converter(config | own, Role.KEY).CLASS_NAME == "example.LoudConverter"
    assert list(wrong(await known.validate(config | {"table": "x"}))) == ["table"]
    assert "did not think" in wrong(await known.validate(config | {"table": "broken"}))["connector.class"][0]
    assert list(wrong(await known.validate({**config, "topics": ""}))) == ["topics", "topics.regex"]
