"""`barnabas storage format` beside Apache Kafka's: the same files for the same properties and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import read_meta_properties
from barnabas.wire.batch_header import iter_headers
from barnabas.wire.control_records import decode_control
from barnabas.wire.metadata_records import decode_metadata_record
from barnabas.wire.record_batch import decode_batch
from barnabas.wire.records.snapshot_header_record import SnapshotHeaderRecord
from tests.peers.tools import STORAGE_TOOL, ToolRunner

from .test_storage import run

pytestmark = pytest.mark.peer

CLUSTER = "QmFybmFiYXNUZXN0UGVlcg"
OURS, OTHERS = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
BROKER = {**CONTROLLER, "process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}
BOTH = {
    **CONTROLLER,
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
}
DYNAMIC = {"controller.quorum.bootstrap.servers": "localhost:9093"}
STATIC = {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}
VOTERS = ("--initial-controllers", f"1@localhost:9093:{OURS},2@localhost:9094:{OTHERS}")
SCRAM = ("--add-scram", 'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",password=secret]')
ALONE = "--standalone"
RELEASE = "--release-version"


def level(feature: str, number: object) -> tuple[str, str]:
    return "--feature", f"{feature}={number}"


NOT_OURS = [part for name in ("group", "share", "streams", "transaction") for part in level(f"{name}.version", 0)]
"""Kafka begins with levels of these features that a node of ours does not run."""


@dataclass
class Formatted:
    """What one of the two made of a request."""

    code: int
    said: str
    files: dict[str, object]


class Both:
    """Formats with both tools, each in a directory of its own."""

    def __init__(self, directory: Path, tools: ToolRunner, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory, self._tools, self._capsys = directory, tools, capsys

    def format(
        self, properties: Mapping[str, str], *args: str, cluster_id: str = CLUSTER
    ) -> tuple[Formatted, Formatted]:
        """Give what Kafka made of it, and what we did."""
        result = self._tools.run(STORAGE_TOOL, *self._command("kafka", properties, cluster_id, args))
        theirs = Formatted(result.code, result.stdout + result.stderr, self.files("kafka"))
        code = run("storage", *self._command("barnabas", properties, cluster_id, args))
        written = self._capsys.readouterr()
        return theirs, Formatted(code, written.out + written.err, self.files("barnabas"))

    def _command(self, whose: str, properties: Mapping[str, str], cluster_id: str, args: Sequence[str]) -> list[str]:
        home = self.directory / whose
        home.mkdir(exist_ok=True)
        file = home / "server.properties"
        dirs = {"log.dirs": f"{home}/a,{home}/b", "metadata.log.dir": f"{home}/b"}
        file.write_text("".join(f"{k}={v}\n" for k, v in {**properties, **dirs}.items()))
        return ["format", "-c", str(file), "-t", cluster_id, *args]

    def files(self, whose: str) -> dict[str, object]:
        """Give what is in the two directories, with nothing in it that chance or the clock has chosen."""
        found: dict[str, object] = {}
        for directory in (self.directory / whose / "a", self.directory / whose / "b"):
            properties = read_meta_properties(directory, OsFileSystem())
            own_id = None if properties is None else properties.directory_id
            for path in sorted(directory.rglob("*")):
                name = f"{directory.name}/{path.relative_to(directory)}"
                if path.name == "meta.properties":
                    text = path.read_text().replace(str(own_id), OURS)
                    found[name] = sorted(line for line in text.splitlines() if not line.startswith("#"))
                elif path.is_file():
                    found[name] = checkpoint(path.read_bytes(), str(own_id))
        return found


def checkpoint(data: bytes, own_id: str) -> list[object]:
    """Give every batch of a checkpoint and what its records say."""
    found: list[object] = []
    for position, header in iter_headers(data):
        batch = data[position : position + header.size]
        found.append((header.base_offset, header.size, header.leader_epoch, header.attributes, header.record_count))
        for record in decode_batch(batch):
            said = decode_control(record) if header.is_control else decode_metadata_record(record.value or b"")
            if header.is_control and said is not None and isinstance(said[1], SnapshotHeaderRecord):
                assert said[1].last_contained_log_timestamp >= 0
                said[1].last_contained_log_timestamp = 0
            found.append((record.offset, record.key, record.headers, repr(said).replace(own_id, OURS)))
    return found


@pytest.fixture
def both(tmp_path: Path, java_tools: ToolRunner, capsys: pytest.CaptureFixture[str]) -> Both:
    return Both(tmp_path, java_tools, capsys)


@pytest.mark.parametrize(
    ("properties", "args"),
    [
        pytest.param({**CONTROLLER, **DYNAMIC}, [ALONE], id="standalone"),
        pytest.param({**BOTH, **DYNAMIC}, [ALONE], id="standalone-combined"),
        pytest.param({**CONTROLLER, **DYNAMIC}, VOTERS, id="initial-controllers"),
        pytest.param({**CONTROLLER, **DYNAMIC, "node.id": "3"}, VOTERS, id="initial-controllers-without-it"),
        pytest.param({**CONTROLLER, **DYNAMIC}, ["--no-initial-controllers"], id="no-initial-controllers"),
        pytest.param({**CONTROLLER, **STATIC}, [], id="static"),
        pytest.param({**CONTROLLER, **STATIC}, ["--no-initial-controllers"], id="static-no-initial-controllers"),
        pytest.param({**BROKER, **DYNAMIC}, [], id="broker"),
        pytest.param({**BROKER, **STATIC, "node.id": "3"}, [], id="broker-static"),
        pytest.param({**BROKER, **DYNAMIC}, ["--no-initial-controllers"], id="broker-no-initial-controllers"),
        pytest.param({**BROKER, **DYNAMIC}, VOTERS, id="broker-initial-controllers"),
        pytest.param({**CONTROLLER, **DYNAMIC}, [ALONE, *SCRAM], id="scram"),
        pytest.param({**BROKER, **DYNAMIC}, SCRAM, id="broker-scram"),
        pytest.param({**CONTROLLER, **DYNAMIC}, [ALONE, *level("metadata.version", 27)], id="metadata-version"),
        pytest.param(
            {**CONTROLLER, **DYNAMIC}, [ALONE, *level("eligible.leader.replicas.version", 0)], id="feature-off"
        ),
        pytest.param({**CONTROLLER, **DYNAMIC}, [ALONE, *level("kraft.version", 1)], id="dynamic-kraft-version"),
        pytest.param({**CONTROLLER, **STATIC}, level("kraft.version", 0), id="static-kraft-version"),
    ],
)
def test_the_files_are_kafkas(properties: dict[str, str], args: Sequence[str], both: Both) -> None:
    theirs, ours = both.format(properties, *args, *NOT_OURS)
    assert (theirs.code, ours.code) == (0, 0)
    assert len(ours.files) >= 4
    assert ours.files == theirs.files
    said = [
        sorted(line.replace(f"/{whose}/", "/") for line in one.said.splitlines() if line.startswith("Formatting"))
        for one, whose in ((theirs, "kafka"), (ours, "barnabas"))
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("release", ["3.3", "3.7", "3.8", "3.9"])
@pytest.mark.parametrize("quorum", ["static", "dynamic"])
def test_the_files_of_older_releases_are_kafkas(release: str, quorum: str, both: Both) -> None:
    properties, args = ({**CONTROLLER, **STATIC}, []) if quorum == "static" else ({**CONTROLLER, **DYNAMIC}, [ALONE])
    theirs, ours = both.format(properties, *args, RELEASE, release)
    assert (theirs.code, ours.code) == (0, 0)
    assert ours.files == theirs.files


@pytest.mark.parametrize(
    ("properties", "args", "their_words", "our_words"),
    [
        pytest.param(CONTROLLER | DYNAMIC, [], "you must specify one of", "you must specify one of", id="no-voters"),
        pytest.param(
            CONTROLLER | DYNAMIC, [ALONE, "--no-initial-controllers"], "not  allowed", "only one of", id="two-kinds"
        ),
        pytest.param(
            CONTROLLER | STATIC, [ALONE], "please remove controller.quorum.voters", "in place of", id="static-alone"
        ),
        pytest.param(
            CONTROLLER | STATIC, VOTERS, "please remove controller.quorum.voters", "in place of", id="static-initial"
        ),
        pytest.param(BROKER | DYNAMIC, [ALONE], "only use --standalone on a controller", "process.roles", id="broker"),
        pytest.param(BROKER | STATIC, [], "must not be included", "no controller", id="broker-among-the-voters"),
        pytest.param(
            CONTROLLER | STATIC | {"node.id": "3"}, [], "must be included", "does not name", id="not-among-the-voters"
        ),
        pytest.param(
            CONTROLLER | DYNAMIC, ["--initial-controllers", "x"], "No @ found", "not a voter", id="no-voters-at-all"
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            ["--initial-controllers", f"1@localhost:1:{OURS},1@localhost:2:{OTHERS}"],
            "Node id 1 was specified more than once",
            "more than once",
            id="a-voter-twice",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, *level("no.version", 1)],
            "Unsupported feature: no.version",
            "Unsupported feature: no.version",
            id="unknown-feature",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, *level("eligible.leader.replicas.version", 9)],
            "with feature level 9",
            "no level 9",
            id="unknown-level",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, *level("eligible.leader.replicas.version", "x")],
            "Can't parse",
            "not a level",
            id="no-level",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, RELEASE, "3.9", *level("eligible.leader.replicas.version", 1)],
            "depends on metadata.version level 23",
            "depends on metadata.version level 23",
            id="dependency",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, RELEASE, "4.0", *level("metadata.version", 25)],
            "to avoid ambiguity",
            "use one of them",
            id="release-twice",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, RELEASE, "9.9"],
            "Unknown metadata.version",
            "Unknown metadata.version",
            id="unknown-release",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, *level("metadata.version", 31)],
            "not yet stable",
            "not yet stable",
            id="unstable",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC, [ALONE, *level("metadata.version", 6)], "feature level 6", "no level 6", id="too-old"
        ),
        pytest.param(
            CONTROLLER | STATIC,
            level("kraft.version", 1),
            "Cannot set kraft.version to 1",
            "kraft.version=1 is for",
            id="static-kraft-version-1",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, *level("kraft.version", 0)],
            "Cannot set kraft.version to 0",
            "kraft.version=0 is for",
            id="dynamic-kraft-version-0",
        ),
        pytest.param(
            CONTROLLER | STATIC, [RELEASE, "3.4", *SCRAM], "3.5-IV2 or later", "3.5-IV2 or more", id="scram-too-early"
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, "--add-scram", "MD5=[name=a,password=b]"],
            "MD5 is not supported",
            "MD5 is not a SCRAM",
            id="scram-mechanism",
        ),
        pytest.param(
            CONTROLLER | DYNAMIC,
            [ALONE, "--add-scram", "SCRAM-SHA-512=[name=a]"],
            "supply one of 'password' or 'saltedpassword'",
            "a password, or a saltedpassword",
            id="scram-password",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_for_the_same_reason(
    properties: dict[str, str], args: Sequence[str], their_words: str, our_words: str, both: Both
) -> None:
    theirs, ours = both.format(properties, *args)
    assert (theirs.code, ours.code) == (1, 1)
    assert their_words in theirs.said
    assert our_words in ours.said
    assert theirs.files == ours.files == {}


def test_formatted_directories_are_left_alone_as_kafka_leaves_them(both: Both) -> None:
    properties = {**CONTROLLER, **DYNAMIC}
    both.format(properties, ALONE, *NOT_OURS)
    again = both.format(properties, ALONE, *NOT_OURS)
    assert [one.code for one in again] == [1, 1]
    assert all("already formatted" in one.said for one in again)
    other = both.format(properties, ALONE, *NOT_OURS, "--ignore-formatted", cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert [one.code for one in other] == [1, 1]
    ignored = both.format(properties, ALONE, *NOT_OURS, "--ignore-formatted")
    assert [one.code for one in ignored] == [0, 0]
    assert ignored[0].files == ignored[1].files == again[1].files
    for whose in ("kafka", "barnabas"):
        for path in sorted((both.directory / whose / "a").iterdir()):
            path.unlink()
    theirs, ours = both.format(properties, ALONE, *NOT_OURS, "--ignore-formatted")
    assert (theirs.code, ours.code) == (0, 0)
    assert theirs.files == ours.files == again[1].files
