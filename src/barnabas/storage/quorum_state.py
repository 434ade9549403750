"""The `quorum-state` file beside the metadata log: one line of JSON, replaced durably (KIP-595, KIP-853)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from barnabas.model.uuid import Uuid
from barnabas.storage.fs import FileSystem
from barnabas.wire.records.quorum_state_data import QuorumStateData, Voter

FILE_NAME: Final = "quorum-state"


class QuorumStateError(Exception):
    """The file does not read as a quorum state; says why."""


def read_quorum_state(log_dir: Path, fs: FileSystem) -> QuorumStateData | None:
    """Give what the file in the metadata log's directory says, None when it is not there."""
    path = log_dir / FILE_NAME
    try:
        text = fs.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        values = json.loads(text)
        version = values["data_version"]
        if version not in (0, 1):
            raise QuorumStateError(f"{path}: data_version {version} is neither 0 nor 1")
        return _from_json(values, version)
    except (ValueError, KeyError, TypeError) as e:
        raise QuorumStateError(f"{path} is damaged: {e!r}") from None


def write_quorum_state(log_dir: Path, data: QuorumStateData, version: int, fs: FileSystem) -> None:
    """Replace the file, durably. version: 0 with kraft.version 0, 1 from 1 on."""
    text = json.dumps(_to_json(data, version), separators=(",", ":"))
    fs.write_durably(log_dir / FILE_NAME, text.encode())


def _from_json(values: dict[str, Any], version: int) -> QuorumStateData:
    data = QuorumStateData(
        leader_id=int(values["leaderId"]), leader_epoch=int(values["leaderEpoch"]), voted_id=int(values["votedId"])
    )
    if version == 1:
        data.voted_directory_id = Uuid.parse(values["votedDirectoryId"])
    else:
        data.cluster_id = values.get("clusterId", "")
        data.applied_offset = int(values.get("appliedOffset", 0))
        data.current_voters = [Voter(voter_id=int(v["voterId"])) for v in values.get("currentVoters") or ()]
    return data


def _to_json(data: QuorumStateData, version: int) -> dict[str, Any]:
    election = {"leaderId": data.leader_id, "leaderEpoch": data.leader_epoch, "votedId": data.voted_id}
    if version == 1:
        return {**election, "votedDirectoryId": str(data.voted_directory_id), "data_version": 1}
    voters = [{"voterId": voter.voter_id} for voter in data.current_voters or ()]
    return {"clusterId": data.cluster_id, **election, "appliedOffset": data.applied_offset,
            "currentVoters": voters, "data_version": 0}  # fmt: skip
