from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.core.raft.voters import parse_dynamic_voters
from barnabas.core.sasl.mechanisms.scram import SCRAM_SHA_512, derive_keys, salt_password
from barnabas.model.features import MetadataVersion
from barnabas.model.uuid import RESERVED_UUIDS, Uuid
from barnabas.server.format import FormatError, FormatRequest, format_directories, random_uuid, standalone_voters
from barnabas.server.raft.metadata_log import read_batches
from barnabas.server.scram_arguments import parse_scram_argument
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.memory_fs import MemoryFileSystem, no_fault
from barnabas.storage.meta_properties import read_meta_properties
from barnabas.wire.metadata_records import decode_metadata_record

from .controllers import CLUSTER_ID, node_config

VOTERS = parse_dynamic_voters("1@localhost:9093:JEXY6aqzQY-32P5TStzaFg", "CONTROLLER")
FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def request(*dirs: Path) -> FormatRequest:
    return FormatRequest(CLUSTER_ID, 1, dirs, dirs[0], voters=VOTERS)


def files(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def bootstrap(directory: Path) -> list[object]:
    batches = read_batches((directory / "bootstrap.checkpoint").read_bytes())
    return [decode_metadata_record(r.value or b"")[0] for b in batches if not b.control for r in b.records]


def test_each_directory_gets_what_it_is_for(tmp_path: Path) -> None:
    lines: list[str] = []
    format_directories(request(tmp_path / "meta", tmp_path / "data"), lines.append)
    assert files(tmp_path / "meta") == [FIRST_SNAPSHOT, "bootstrap.checkpoint", "meta.properties"]
    assert files(tmp_path / "data") == ["bootstrap.checkpoint", "meta.properties"]
    fs = OsFileSystem()
    meta, data = (read_meta_properties(tmp_path / n, fs) for n in ("meta", "data"))
    assert meta is not None
    assert data is not None
    assert meta.directory_id == VOTERS.voters[0].key.directory_id
    assert data.directory_id not in (None, meta.directory_id)
    assert (data.cluster_id, data.node_id) == (CLUSTER_ID, 1)
    assert [line.partition("/")[0] for line in lines] == [
        "Formatting data directory ",
        "Formatting dynamic metadata voter directory ",
    ]


def test_a_node_that_joins_later_gets_no_first_snapshot(tmp_path: Path) -> None:
    format_directories(replace(request(tmp_path), voters=None))
    assert files(tmp_path) == ["bootstrap.checkpoint", "meta.properties"]


def test_only_levels_that_this_node_runs_are_finalised(tmp_path: Path) -> None:
    format_directories(request(tmp_path))
    levels = {r.name: r.feature_level for r in bootstrap(tmp_path)}  # type: ignore[attr-defined]
    assert levels == {
        "metadata.version": 30,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }
    assert bootstrap(tmp_path)[0].name == "metadata.version"  # type: ignore[attr-defined]


def test_an_older_release_has_its_own_levels(tmp_path: Path) -> None:
    format_directories(replace(request(tmp_path), release=MetadataVersion.parse("3.9")))
    assert [(r.name, r.feature_level) for r in bootstrap(tmp_path)] == [("metadata.version", 21)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_id": -1}, "the node id is -1"),
        ({"features": {"nope.version": 1}}, "Unsupported feature: nope.version"),
        ({"features": {"share.version": 1}}, "up to 0 only"),
        ({"features": {"share.version": 7}}, "share.version has no level 7"),
        ({"features": {"metadata.version": 31}}, "not yet stable"),
        ({"features": {"metadata.version": 3}}, "metadata.version has no level 3"),
        ({"features": {"kraft.version": 0}}, "kraft.version=0 is for"),
        ({"features": {"kraft.version": 1}, "dynamic": False, "voters": None}, "kraft.version=1 is for"),
        ({"features": {"metadata.version": 30}, "release": MetadataVersion.IBP_4_3_IV0}, "use one of them"),
        (
            {"features": {"eligible.leader.replicas.version": 1}, "release": MetadataVersion.IBP_3_9_IV0},
            "depends on metadata.version level 23",
        ),
        (
            {"scram": ("SCRAM-SHA-512=[name=a,password=b]",), "release": MetadataVersion.IBP_3_4_IV0},
            "cannot hold SCRAM users",
        ),
        ({"scram": ("MD5=[name=a,password=b]",)}, "not a SCRAM mechanism"),
    ],
)
def test_a_faulty_request_writes_nothing(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        format_directories(replace(request(tmp_path), **change))  # type: ignore[arg-type]
    assert files(tmp_path) == []


def test_a_formatted_directory_is_left_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    format_directories(request(first))
    before = (first / "meta.properties").read_text()
    with pytest.raises(FormatError, match="already formatted"):
        format_directories(request(first, second))
    format_directories(replace(request(first, second), ignore_formatted=True))
    assert (first / "meta.properties").read_text() == before
    assert files(second) == ["bootstrap.checkpoint", "meta.properties"]
    lines: list[str] = []
    format_directories(replace(request(first, second), ignore_formatted=True), lines.append)
    assert lines == ["Nothing to do: every log directory is already formatted."]


def test_a_directory_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    format_directories(request(tmp_path))
    other = replace(request(tmp_path), ignore_formatted=True)
    with pytest.raises(FormatError, match="belongs to cluster"):
        format_directories(replace(other, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"))
    with pytest.raises(FormatError, match="Stored node id 1"):
        format_directories(replace(other, node_id=2))


def test_a_crash_while_formatting_leaves_a_directory_that_can_be_formatted_again() -> None:
    directory = Path("/data")
    for limit in range(1, 40):
        fs = MemoryFileSystem()
        left = limit

        def fault(operation: str, path: Path) -> OSError | None:
            nonlocal left
            left -= 1
            return OSError("no power") if left < 0 else None

        fs.fault = fault
        try:
            format_directories(request(directory), fs=fs)
        except OSError:
            fs.fault = no_fault
            if read_meta_properties(directory, fs) is None:
                format_directories(request(directory), fs=fs)
        fs.fault = no_fault
        assert read_meta_properties(directory, fs) is not None
        assert fs.exists(directory / FIRST_SNAPSHOT)


def test_a_scram_argument_is_the_credential_of_its_password() -> None:
    record = parse_scram_argument('SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",password=secret]').record
    salted = salt_password(SCRAM_SHA_512, "secret", b"7q", 8192)
    keys = derive_keys(SCRAM_SHA_512, salted, b"7q", 8192)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", 2, b"7q", 8192)
    assert (record.stored_key, record.server_key) == (keys.stored_key, keys.server_key)


@pytest.mark.parametrize(
    "argument",
    [
        "SCRAM-SHA-512",
        "SCRAM-SHA-512=name=a,password=b",
        "SCRAM-SHA-512=[password=b]",
        "SCRAM-SHA-512=[name=a]",
        "SCRAM-SHA-512=[name=a,saltedpassword=YQ==]",
        "SCRAM-SHA-512=[name=a,salt=!,password=b]",
        "SCRAM-SHA-512=[name=a,password=b,iterations=4095]",
        "SCRAM-SHA-512=[name=a,password=b,iterations=16385]",
        "SCRAM-SHA-512=[name=a,password=b,iterations=x]",
        "SCRAM-SHA-512=[name=a,password=b,colour=red]",
        "SCRAM-SHA-512=[name]",
    ],
)
def test_a_faulty_scram_argument_is_refused_without_telling_the_password(argument: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_scram_argument(argument.replace("password=b", "password=hunter2"))
    assert "hunter2" not in str(refused.value)


def test_the_only_voter_is_reached_where_it_listens(tmp_path: Path) -> None:
    voter = standalone_voters(node_config(tmp_path)).voters[0]
    assert voter.key.node_id == 1
    assert [(name, e.host, e.port) for name, e in voter.endpoints] == [("CONTROLLER", "localhost", 19093)]


def test_random_ids_are_version_4_and_never_reserved() -> None:
    ids = {random_uuid() for _ in range(200)}
    assert len(ids) == 200
    assert all(u[6] >> 4 == 4 and u[8] >> 6 == 2 for u in ids)
    assert not ids & RESERVED_UUIDS
    assert all(Uuid.parse(str(u)) == u and not str(u).startswith("-") for u in ids)
