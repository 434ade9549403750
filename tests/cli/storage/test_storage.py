from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.cli.main import COMMANDS, main
from barnabas.cli.storage import COMMANDS as STORAGE_COMMANDS
from barnabas.model.features import FEATURE_BY_NAME, FEATURES, MetadataVersion
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.storage.log_dirs import LogDirs
from barnabas.storage.meta_properties import MetaVersion
from tests.peers.kafka import cluster_id
from tests.peers.tools import STORAGE_TOOL, ToolRunner

CLUSTER = "QmFybmFiYXNUZXN0UGVlcg"


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    code = ended.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path)


def write_config(folder: Path, **more: str) -> Path:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": f"{folder}/a,{folder}/b",
        "listeners": "PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:19093",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    path = folder / "server.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
    return path


def test_format_and_info(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("storage", "info", "-c", str(config)) == 1
    assert "does not exist" in capsys.readouterr().out
    assert run("storage", "format", "-c", str(config), "-t", CLUSTER, "--standalone") == 0
    capsys.readouterr()
    assert run("storage", "info", "-c", str(config)) == 0
    out = capsys.readouterr().out
    assert f"  {config.parent}/a\n  {config.parent}/b\n" in out
    assert re.search(r"Found metadata: \{cluster\.id=\S+, directory\.id=\S+, node\.id=1, version=1\}", out)


def test_in_zookeeper_mode_nothing_is_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = tmp_path / "server.properties", tmp_path / "data"
    path.write_text(f"broker.id=4\nzookeeper.connect=localhost:2181\nlog.dirs={data}\n")
    assert run("storage", "format", "-c", str(path), "-t", CLUSTER) == 1
    assert "nothing is formatted in ZooKeeper mode" in capsys.readouterr().err
    assert not data.exists()
    directories = LogDirs([data], SystemClock())
    directories.acquire(CLUSTER, 4, MetaVersion.ZOOKEEPER)
    directories.close()
    assert run("storage", "info", "-c", str(path)) == 0
    assert f"Found metadata: {{cluster.id={CLUSTER}, broker.id=4, version=0}}" in capsys.readouterr().out
    assert run("doctor", "data", str(data)) == 0


def test_format_wants_to_know_the_voters(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("storage", "format", "-c", str(config), "-t", CLUSTER) == 1
    assert "--standalone, --initial-controllers, or --no-initial-controllers" in capsys.readouterr().err
    assert not (config.parent / "a").exists()


def test_format_takes_one_kind_of_voters(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("storage", "format", "-c", str(config), "-t", CLUSTER, "-s", "-N") == 1
    assert "only one of" in capsys.readouterr().err


def test_static_voters_exclude_dynamic_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, controller__quorum__voters="1@localhost:19093")
    assert run("storage", "format", "-c", str(config), "-t", CLUSTER, "--standalone") == 1
    assert "controller.quorum.voters fixes the voters" in capsys.readouterr().err
    assert run("storage", "format", "-c", str(config), "-t", CLUSTER) == 0
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


@pytest.mark.parametrize("feature", ["x", "share.version=y", "share.version=1", "nope=1"])
def test_features_are_checked(config: Path, feature: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("storage", "format", "-c", str(config), "-t", CLUSTER, "-s", "--feature", feature) == 1
    assert capsys.readouterr().err.strip()


def test_random_uuid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("storage", "random-uuid") == 0
    Uuid.parse(capsys.readouterr().out.strip())


def test_the_tables_hold_every_command() -> None:
    modules = {p.stem for p in Path(main.__code__.co_filename).parent.joinpath("storage").glob("*.py")}
    listed = {name.replace("-", "_") for name, _ in STORAGE_COMMANDS}
    assert modules - {"__init__", "config_option"} == listed
    assert len({c.name for c in COMMANDS}) == len(COMMANDS)


@pytest.mark.peer
def test_version_mapping_is_kafkas(java_tools: ToolRunner, capsys: pytest.CaptureFixture[str]) -> None:
    for release in [*dict.fromkeys(v.release for v in MetadataVersion if v <= 30), *map(str, MetadataVersion)]:
        assert run("storage", "version-mapping", "-r", release) == 0
        ours = capsys.readouterr().out
        assert java_tools.run(STORAGE_TOOL, "version-mapping", "-r", release).stdout == ours
    assert run("storage", "version-mapping") == 0
    assert java_tools.run(STORAGE_TOOL, "version-mapping").stdout == capsys.readouterr().out


@pytest.mark.peer
def test_feature_dependencies_are_kafkas(java_tools: ToolRunner, capsys: pytest.CaptureFixture[str]) -> None:
    items = [f"{f.name}={row.level}" for f in FEATURES for row in f.levels]
    items += [f"metadata.version={int(v)}" for v in MetadataVersion]
    args = [arg for item in items for arg in ("-f", item)]
    assert run("storage", "feature-dependencies", *args) == 0
    assert java_tools.run(STORAGE_TOOL, "feature-dependencies", *args).stdout == capsys.readouterr().out
    assert FEATURE_BY_NAME.keys() == {f.name for f in FEATURES}


@pytest.mark.peer
def test_kafkas_tool_reads_what_we_formatted(
    config: Path, java_tools: ToolRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("storage", "format", "-c", str(config), "-t", cluster_id(config), "--standalone") == 0
    capsys.readouterr()
    assert run("storage", "info", "-c", str(config)) == 0
    theirs = java_tools.run(STORAGE_TOOL, "info", "-c", str(config))
    assert (theirs.code, theirs.stdout) == (0, capsys.readouterr().out)
    again = java_tools.run(STORAGE_TOOL, "format", "-c", str(config), "-t", CLUSTER, "--standalone")
    assert "already formatted" in again.stderr
